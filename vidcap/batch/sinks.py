"""Where answers go, and which of them are there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from vidcap.batch.jobs import Job
from vidcap.output.record import Record, Source
from vidcap.output.writer import Writer


@dataclass(frozen=True, slots=True)
class Wanted:
    """What makes two answers the same: the content of the file and the settings.

    Attributes:
        source: the file as it is now.
        settings: hash of the settings with the prompt, per request.
    """

    source: Source
    settings: tuple[str, ...]


class Sink(Protocol):
    """Takes the answers about one video after the other.

    Attributes:
        keeps: whether answers outlive the run, so that a later one can go on.
    """

    keeps: bool

    def missing(self, job: Job, wanted: Wanted) -> Sequence[int]:
        """Which of the requests have to be answered, by their place in ``wanted.settings``."""

    def begin(self, path: str, question: str | None) -> None:
        """An answer about ``path`` comes next."""

    def piece(self, text: str) -> None:
        """Some more words of it."""

    def end(self, record: Record) -> None:
        """It is complete; ``record`` holds the whole of it, or the error."""

    def finish(self, job: Job) -> None:
        """All answers about a video were given.

        Raises:
            OutputError: they cannot be written.
        """

    def close(self) -> None:
        """Nothing more comes; also called when a run was cut short."""


class StreamSink:
    """Answers on standard output; nothing is known of earlier ones."""

    keeps = False

    def __init__(self, writer: Writer):
        self.begin = writer.begin
        self.piece = writer.piece
        self.end = writer.end
        self.close = writer.close

    def missing(self, job: Job, wanted: Wanted) -> Sequence[int]:
        """All of them."""
        return range(len(wanted.settings))

    def finish(self, job: Job) -> None:
        """Everything is printed already."""
