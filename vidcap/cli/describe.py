"""``vidcap describe``."""

from __future__ import annotations

from typing import Annotated

import typer

from vidcap.cli.answer_options import AnswerOptions
from vidcap.cli.answers import Request, answer_all
from vidcap.settings import DEFAULT_DESCRIBE_PROMPT


def describe(
    options: AnswerOptions,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT",
            help="Video files, folders of them, or '-' for a video on standard input.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Describe videos: one caption each, or one for each window of time.

    The captions go to standard output, or to files where --out-dir or --out-file says so;
    everything else goes to standard error.
    """
    prompt = options.prompt.text() or DEFAULT_DESCRIBE_PROMPT
    return answer_all(inputs or [], [Request("describe", prompt)], options)
