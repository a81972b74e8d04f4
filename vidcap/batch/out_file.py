"""Answers of many videos in one file that grows by whole records; a later run goes on with it.

Each record is written by one call, so a run that is killed leaves at most its last one cut short,
and that is dropped when the file is opened again. A record that did not finish (an error, an answer
cut off by Ctrl-C) stays until a better one for the same question has come; then it is taken out.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vidcap.batch.jobs import Job
from vidcap.batch.sinks import Wanted
from vidcap.errors import UsageError
from vidcap.output.record import Record
from vidcap.output.streams import OutputError


@dataclass(frozen=True, slots=True)
class Kept:
    """A record in the file, as far as a later run needs it.

    Attributes:
        length: bytes.
        path: of the video, as the file spells it.
        fingerprint, settings: of the video and the settings.
        finished: whether nothing is left to do.
    """

    length: int
    path: str
    fingerprint: str
    settings: str
    finished: bool


class LineForm(Protocol):
    """How records stand in a file."""

    def head(self) -> bytes:
        """What stands before the first record."""

    def lines(self, record: Record) -> bytes:
        """A record with all its line ends."""

    def path(self, path: str) -> str:
        """A path as :class:`Kept` spells it."""

    def read(self, content: bytes) -> tuple[list[Kept], int]:
        """The records behind the head, and the length of the head with all complete records.

        Raises:
            ValueError: the content is something else, with where it is.
        """


class FileSink:
    """Appends records to a file.

    Args:
        place: the file; made where it does not exist.
        form: how records stand in it.
        overwrite: whether to begin anew, once there is a first record.

    Raises:
        UsageError: the file holds something else, or cannot be written.
    """

    keeps = True

    def __init__(self, place: Path, form: LineForm, *, overwrite: bool = False):
        self._place = place
        self._form = form
        self._kept: list[Kept] = []
        self._done: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._size = 0
        self._truncate = overwrite
        try:
            self._file = os.open(place, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            self._is_regular = stat.S_ISREG(os.fstat(self._file).st_mode)
            if self._is_regular and not overwrite:
                self._read()
        except OSError as error:
            raise UsageError(f"cannot write {place}: {error.strerror or error}") from error

    def missing(self, job: Job, wanted: Wanted) -> Sequence[int]:
        """The requests that have no finished answer yet."""
        path, fingerprint = self._form.path(job.path), wanted.source.fingerprint
        return [
            place
            for place, settings in enumerate(wanted.settings)
            if not any(_same_path(known, path) for known in self._done[fingerprint, settings])
        ]

    def begin(self, path: str, question: str | None) -> None:
        """Nothing is written before an answer is complete."""

    def piece(self, text: str) -> None:
        """Words in the making are not written."""

    def end(self, record: Record) -> None:
        """Appends the record.

        Raises:
            OutputError: it cannot be written.
        """
        lines = self._form.lines(record)
        try:
            if self._truncate:
                os.ftruncate(self._file, 0)
                self._truncate = False
            if not self._kept and not self._size:
                self._size += _write(self._file, self._form.head())
            self._size += _write(self._file, lines)
        except OSError as error:
            raise OutputError(error) from error
        self._keep(self._form.read(self._form.head() + lines)[0])

    def finish(self, job: Job) -> None:
        """Every record is written already."""

    def close(self) -> None:
        """Takes out the records that a better one has replaced."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._clean()

    def _read(self) -> None:
        content = self._place.read_bytes()
        try:
            found, self._size = self._form.read(content)
        except ValueError as error:
            raise UsageError(
                f"{self._place}, {error}", hint="name another --out-file, or use --overwrite"
            ) from error
        self._keep(found)
        if self._size < len(content):
            os.ftruncate(self._file, self._size)

    def _keep(self, found: Sequence[Kept]) -> None:
        self._kept += found
        for kept in found:
            if kept.finished:
                self._done[kept.fingerprint, kept.settings].append(kept.path)

    def _clean(self) -> None:
        final = {_key(kept): place for place, kept in enumerate(self._kept)}
        stale = [
            not kept.finished and final[_key(kept)] > place for place, kept in enumerate(self._kept)
        ]
        if not self._is_regular or not any(stale):
            return
        beside = self._place.with_name(f".{self._place.name}.part")
        try:
            content = self._place.read_bytes()
            if len(content) != self._size:
                return  # Another run writes to the same file.
            start = self._size - sum(kept.length for kept in self._kept)
            with beside.open("wb") as file:
                file.write(content[:start])
                for kept, is_stale in zip(self._kept, stale, strict=True):
                    if not is_stale:
                        file.write(content[start : start + kept.length])
                    start += kept.length
            os.replace(beside, self._place)
        except OSError as error:
            raise OutputError(error) from error


def _key(kept: Kept) -> tuple[str, str]:
    return os.path.abspath(kept.path), kept.settings


def _same_path(kept: str, path: str) -> bool:
    """Whether a record is about this path: it is named so, or the one it names has been moved."""
    return os.path.abspath(kept) == os.path.abspath(path) or not os.path.exists(kept)


def _write(descriptor: int, data: bytes) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    return len(data)
