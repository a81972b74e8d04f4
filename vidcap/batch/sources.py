"""The inputs of a command line as a feed of videos."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from vidcap.batch.feed import ArrivingFeed, Feed, KnownFeed
from vidcap.batch.jobs import STDIN, Entry, Job, find_jobs
from vidcap.errors import UsageError, VidcapError


@contextmanager
def open_feed(inputs: Sequence[str], files_from: str | None) -> Iterator[Feed]:
    """The videos of all inputs, or of a list that is read line by line.

    A video on standard input is kept in a temporary file meanwhile.

    Args:
        inputs: files, folders, ``-``.
        files_from: name of the list, ``-`` for standard input; there are no `inputs` then.

    Raises:
        UsageError: the list cannot be opened.
        VidcapError: standard input cannot be kept.
    """
    if files_from is not None:
        yield ArrivingFeed(_open_list(files_from), files_from)
        return
    if STDIN not in inputs:
        yield KnownFeed(list(_entries(inputs, Path())))
        return
    place = tempfile.TemporaryDirectory(prefix="vidcap-", ignore_cleanup_errors=True)
    with place as folder:
        yield KnownFeed(list(_entries(inputs, Path(folder))))


def _entries(inputs: Sequence[str], folder: Path) -> Iterator[Entry]:
    for path in inputs:
        if path == STDIN:
            yield Job(STDIN, _keep_stdin(folder / "stdin"), STDIN)
        else:
            yield from find_jobs(path)


def _open_list(name: str) -> int:
    """Not to be closed: the thread that reads it may be at it until the program ends."""
    if name == STDIN:
        return 0
    if os.path.isdir(name):
        raise UsageError(
            f"--files-from {name} is a folder", hint="folders are INPUTs by themselves"
        )
    try:
        return os.open(name, os.O_RDONLY)
    except OSError as error:
        raise UsageError(f"--files-from {name}: {error.strerror or error}") from error


def _keep_stdin(place: Path) -> str:
    """Copies standard input, with a time that is the same for the same content."""
    if sys.stdin is None:
        raise UsageError("standard input is closed, '-' cannot be read")
    try:
        with place.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        os.utime(place, ns=(0, 0))
    except OSError as error:
        words = f"cannot keep standard input: {error.strerror or error}"
        raise VidcapError(words, hint="set TMPDIR to a folder with room", exit_code=3) from error
    return str(place)
