"""``vidcap ask``."""

from __future__ import annotations

from typing import Annotated

import typer

from vidcap.cli.answers import Request, answer_all
from vidcap.cli.options import AnswerOptions
from vidcap.errors import UsageError


def ask(
    path: Annotated[str, typer.Argument(metavar="INPUT", help="A video file.")],
    questions: Annotated[
        list[str], typer.Argument(metavar="QUESTION", help="What to ask about it.")
    ],
    options: AnswerOptions,
) -> int:
    """Ask one or more questions about a video.

    The video is read once, however many questions there are.
    """
    if not all(question.strip() for question in questions):
        raise UsageError("a question is empty")
    instruction = options.prompt.text()
    requests = [
        Request("ask", f"{instruction}\n{question}" if instruction else question, question)
        for question in questions
    ]
    return answer_all([path], requests, options)
