"""Decoding in a thread of its own, so that models can load meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Runs one piece of work in a daemon thread and keeps its result or its exception.

    The work gets a function that it asks now and then whether to stop.

    Attributes:
        done: set once the work has ended.
    """

    def __init__(
        self, work: Callable[[Callable[[], bool]], T], *, after: threading.Event | None = None
    ):
        """Starts at once, or after the work that sets `after`."""
        self._work = work
        self._after = after
        self.done = threading.Event()
        self._stop = threading.Event()
        self._result: T | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="vidcap-decode")
        self._thread.start()

    def result(self) -> T:
        """Wait for the result, or raise what the work raised."""
        # Waiting in slices lets the main thread see Ctrl-C on every platform.
        while self._thread.is_alive():
            self._thread.join(0.2)
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def cancel(self) -> None:
        """Ask the work to stop; does not wait for it."""
        self._stop.set()

    def _run(self) -> None:
        try:
            if self._after is not None:
                self._after.wait()
            self._result = self._work(self._stop.is_set)
        except BaseException as error:
            self._error = error
        finally:
            self.done.set()
