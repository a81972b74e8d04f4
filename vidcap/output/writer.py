"""One small writer per format behind one protocol."""

from __future__ import annotations

from typing import Protocol, TextIO

from vidcap.errors import UsageError
from vidcap.output.jsonout import JsonLinesWriter, JsonWriter
from vidcap.output.record import Record
from vidcap.output.subtitles import SubtitleWriter
from vidcap.output.text import TextWriter
from vidcap.output.tsv import TsvWriter

FORMATS = ("text", "json", "jsonl", "tsv", "srt", "vtt")


class Writer(Protocol):
    """Takes answers one after the other: begin, any number of pieces, end; close once."""

    def begin(self, path: str, question: str | None) -> None:
        """An answer about ``path`` comes next."""

    def piece(self, text: str) -> None:
        """Some more words of it."""

    def end(self, record: Record) -> None:
        """It is complete; ``record`` holds the whole of it, or the error."""

    def close(self) -> None:
        """Nothing more comes; also called when a run was cut short."""


def make_writer(
    name: str, stream: TextIO, *, inputs: int, questions: int, live: bool = True
) -> Writer:
    """The writer of a format.

    Args:
        name: one of ``FORMATS``.
        stream: where it writes; text is kept from controlling a terminal.
        inputs, questions: how many there are. Headings, and whether JSON is a list, depend on it.
        live: whether text is written as it comes.

    Raises:
        UsageError: for an unknown format.
    """
    if name == "text":
        return TextWriter(
            stream,
            show_paths=inputs > 1,
            show_questions=questions > 1,
            live=live,
            terminal=stream.isatty(),
        )
    if name == "json":
        return JsonWriter(stream, as_list=inputs > 1 or questions > 1)
    if name == "jsonl":
        return JsonLinesWriter(stream)
    if name == "tsv":
        return TsvWriter(stream, terminal=stream.isatty())
    if name in ("srt", "vtt"):
        return SubtitleWriter(stream, vtt=name == "vtt", terminal=stream.isatty())
    raise UsageError(f"unknown format '{name}'", hint="formats: " + ", ".join(FORMATS))
