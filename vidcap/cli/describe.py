"""``vidcap describe``."""

from __future__ import annotations

from typing import Annotated

import typer

from vidcap.cli.answers import Request, answer_all
from vidcap.cli.options import AnswerOptions
from vidcap.settings import DEFAULT_DESCRIBE_PROMPT


def describe(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT", help="Video files.")],
    options: AnswerOptions,
) -> int:
    """Describe videos: one caption each.

    The captions go to standard output, everything else to standard error.
    """
    prompt = options.prompt.text() or DEFAULT_DESCRIBE_PROMPT
    return answer_all(inputs, [Request("describe", prompt)], options)
