"""What every thread did and when, as a trace that browsers draw (chrome://tracing, Perfetto)."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vidcap.errors import VidcapError


class Trace:
    """Collects events of all threads; what happened at the same time lies one above the other.

    Threads of the same name share a row. An event that encloses others of its thread is drawn
    around them.
    """

    def __init__(self) -> None:
        self._begin = time.perf_counter()
        self._lock = threading.Lock()
        self._rows: dict[str, int] = {}
        self._events: list[dict[str, Any]] = []

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """An event of this thread from here to the end of the block, failed blocks included."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, begin, time.perf_counter())

    def add(self, name: str, begin: float, end: float, **details: object) -> None:
        """Note an event of this thread.

        Args:
            name: what is drawn on it.
            begin, end: readings of ``time.perf_counter()``.
            details: shown when the event is selected.
        """
        thread = threading.current_thread()
        row = "main" if thread is threading.main_thread() else thread.name
        with self._lock:
            number = self._rows.setdefault(row, len(self._rows) + 1)
            self._events.append(
                {
                    "name": name,
                    "ph": "X",
                    "ts": round(1e6 * (begin - self._begin), 1),
                    "dur": round(1e6 * (end - begin), 1),
                    "pid": os.getpid(),
                    "tid": number,
                    "args": details,
                }
            )

    def chrome(self) -> dict[str, Any]:
        """The events in Chrome's trace event format, times in microseconds since the start."""
        with self._lock:
            events = sorted(self._events, key=lambda event: (event["ts"], -event["dur"]))
            rows = dict(self._rows)
        names = [
            {
                "name": "thread_name",
                "ph": "M",
                "pid": os.getpid(),
                "tid": number,
                "args": {"name": row},
            }
            for row, number in rows.items()
        ]
        return {"traceEvents": [*names, *events], "displayTimeUnit": "ms"}

    def save(self, path: Path) -> None:
        """Write the trace as JSON.

        Raises:
            VidcapError: the file cannot be written.
        """
        try:
            path.write_text(json.dumps(self.chrome()) + "\n", encoding="utf-8")
        except OSError as error:
            words = f"cannot write the trace: {error.strerror or error}"
            raise VidcapError(words, exit_code=3) from error
