"""Python objects through a pair of pipes; arrays travel as they lie in memory, without a copy."""

from __future__ import annotations

import os
import pickle
import select
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

_LENGTH = struct.Struct("<Q")

#: How often a waiting receiver looks after other things, in milliseconds.
_LOOK_UP_MS = 100

#: A larger pipe than usual (1 MiB, the most that Linux grants everybody) means fewer system calls.
_PIPE_BYTES = 1 << 20


class Channel:
    """One end of a pair of pipes between two processes that trust each other.

    Args:
        incoming, outgoing: file descriptors, which stay the caller's.
    """

    def __init__(self, incoming: int, outgoing: int):
        self._incoming = incoming
        self._outgoing = outgoing
        self._arrival = select.poll()
        self._arrival.register(incoming, select.POLLIN)
        _widen(outgoing)

    def send(self, message: object) -> None:
        """Writes a message.

        Raises:
            OSError: the other end is gone.
        """
        arrays: list[pickle.PickleBuffer] = []
        body = pickle.dumps(message, protocol=5, buffer_callback=arrays.append)
        parts = [memoryview(body), *(array.raw() for array in arrays)]
        lengths = [len(arrays), *(part.nbytes for part in parts)]
        self._write(memoryview(b"".join(map(_LENGTH.pack, lengths))))
        for part in parts:
            self._write(part)

    def receive(self, while_waiting: Callable[[], None] = lambda: None) -> Any:
        """Waits for a message.

        Args:
            while_waiting: called now and then; what it raises ends the wait.

        Raises:
            EOFError: the other end is gone.
        """
        (count,) = _LENGTH.unpack(self._read(_LENGTH.size, while_waiting))
        lengths = self._read(_LENGTH.size * (count + 1), while_waiting)
        body, *arrays = (
            self._read(length, while_waiting) for (length,) in _LENGTH.iter_unpack(lengths)
        )
        return pickle.loads(body, buffers=arrays)

    def is_closed(self) -> bool:
        """Whether the other end has stopped sending for good, at once."""
        return any(events & select.POLLHUP for _, events in self._arrival.poll(0))

    def _write(self, part: memoryview) -> None:
        while part.nbytes:
            part = part[os.write(self._outgoing, part) :]

    def _read(self, length: int, while_waiting: Callable[[], None]) -> memoryview:
        part = np.empty(length, np.uint8).data
        done = 0
        while done < length:
            while not self._arrival.poll(_LOOK_UP_MS):
                while_waiting()
            count = os.readv(self._incoming, [part[done:]])
            if count == 0:
                raise EOFError
            done += count
        return part


def _widen(pipe: int) -> None:
    try:
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        # Smaller pipes are slower, no more.
        return
