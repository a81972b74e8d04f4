"""``vidcap ask``."""

from __future__ import annotations

from typing import Annotated

import typer

from vidcap.cli.answer_options import AnswerOptions
from vidcap.cli.answers import STDIN, Request, answer_all
from vidcap.errors import UsageError


def ask(
    path: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="A video file, a folder of them, or '-' for a video on standard input. With "
            "--files-from there is no INPUT, only questions.",
        ),
    ],
    options: AnswerOptions,
    questions: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION", help="What to ask about it.", show_default=False),
    ] = None,
) -> int:
    """Ask one or more questions about a video, or about each video of a folder.

    Every video is read once, however many questions there are.
    """
    inputs, words = [path], questions or []
    if options.batch.files_from is not None:
        inputs, words = [], [path, *words]
        if options.batch.files_from == path == STDIN:
            raise UsageError("'-' and --files-from - both read standard input")
    if not words:
        raise UsageError("missing argument 'QUESTION'", hint="see vidcap ask --help")
    if not all(question.strip() for question in words):
        raise UsageError("a question is empty")
    instruction = options.prompt.text()
    requests = [
        Request("ask", f"{instruction}\n{question}" if instruction else question, question)
        for question in words
    ]
    return answer_all(inputs, requests, options)
