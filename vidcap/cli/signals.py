"""Ctrl-C: the first stops an answer between two tokens, the second ends at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

EXIT_INTERRUPTED = 130
EXIT_CLOSED_PIPE = 141


class Interrupts:
    """Watches SIGINT while a command runs.

    Before the first word of an answer, the first Ctrl-C raises KeyboardInterrupt, so that loading
    and prefill end promptly. After it, Ctrl-C only raises a flag that :meth:`should_stop` reports,
    so that the words already accepted are kept. The second raises KeyboardInterrupt in either case;
    the third ends the process whatever it is doing. A process that was started with SIGINT ignored
    stays so.
    """

    def __init__(self) -> None:
        self.count = 0
        self._graceful = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def should_stop(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.count > 0

    def check(self) -> None:
        """Raises KeyboardInterrupt if Ctrl-C was pressed and something swallowed it."""
        if self.count:
            raise KeyboardInterrupt

    @contextmanager
    def answering(self) -> Iterator[Callable[[], None]]:
        """Work on one answer; the yielded function says that there are words to keep."""
        self.check()

        def keep_words() -> None:
            self._graceful = True

        try:
            yield keep_words
        finally:
            self._graceful = False

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count == 1 and self._graceful:
            return
        if self.count > 2:
            os._exit(EXIT_INTERRUPTED)
        raise KeyboardInterrupt
