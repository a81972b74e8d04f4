"""Videos one after the other, whether all are known or still arrive."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

from vidcap.batch.jobs import Entry, Problem, find_jobs
from vidcap.errors import InputError

#: Videos that are taken from a list before the first of them is done.
_ROOM = 1000
_PIECE = 1 << 16


class Feed(Protocol):
    """Entries in order. ``total`` is how many there are, None where nobody knows yet."""

    total: int | None

    def take(self) -> Entry | None:
        """The next one, waited for; None after the last."""

    def poll(self) -> Entry | None:
        """The next one if it is there already."""


class KnownFeed:
    """Entries that are all known."""

    def __init__(self, entries: Iterable[Entry]):
        self._entries = deque(entries)
        self.total: int | None = len(self._entries)

    def take(self) -> Entry | None:
        """The next one, None after the last."""
        return self._entries.popleft() if self._entries else None

    def poll(self) -> Entry | None:
        """The same: nothing has to be waited for."""
        return self.take()


class ArrivingFeed:
    """Entries from a list of paths, one a line, that is read while it is being written.

    Empty lines are left out. A path may be a folder.

    Args:
        descriptor: of the open list. It is read in a thread, without the locks of Python's own
            files, so that a list that never ends does not hold up the end of the program.
        name: of the list, for messages.
    """

    def __init__(self, descriptor: int, name: str):
        self.total: int | None = None
        self._name = name
        self._descriptor = descriptor
        self._queue: queue.Queue[Entry | None] = queue.Queue(_ROOM)
        self._ended = False
        threading.Thread(target=self._read, daemon=True, name="vidcap-list").start()

    def take(self) -> Entry | None:
        """The next one, waited for; None after the last."""
        while not self._ended:
            try:
                # Waiting in slices lets the main thread see Ctrl-C on every platform.
                return self._seen(self._queue.get(timeout=0.2))
            except queue.Empty:
                continue
        return None

    def poll(self) -> Entry | None:
        """The next one if it has arrived."""
        if self._ended:
            return None
        try:
            return self._seen(self._queue.get_nowait())
        except queue.Empty:
            return None

    def _seen(self, entry: Entry | None) -> Entry | None:
        self._ended = entry is None
        return entry

    def _read(self) -> None:
        try:
            for line in read_lines(self._descriptor):
                for entry in find_jobs(line):
                    self._queue.put(entry)
        except OSError as error:
            words = f"cannot be read: {error.strerror or error}"
            self._queue.put(Problem(self._name, InputError(words)))
        finally:
            self._queue.put(None)


def read_lines(descriptor: int) -> Iterator[str]:
    """The lines that are not empty, each as soon as it is complete, as paths."""
    rest = b""
    while piece := os.read(descriptor, _PIECE):
        *lines, rest = (rest + piece).split(b"\n")
        yield from map(os.fsdecode, filter(None, (line.removesuffix(b"\r") for line in lines)))
    if rest.strip():
        yield os.fsdecode(rest)
