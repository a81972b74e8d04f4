"""Everything the command line says beside the answer: errors, warnings, notices, progress.

All of it goes to stderr. Rich is imported only where something moves or is drawn, on a terminal.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

from vidcap.errors import VidcapError, explain
from vidcap.output.text import one_line

if TYPE_CHECKING:
    from rich.status import Status

    from vidcap.cli.progress import Bar


class Console:
    """Writes messages in the one form that scripts can rely on.

    Args:
        quiet: errors only.
        verbose: details too.
        debug: a traceback before each error.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False, debug: bool = False):
        self.quiet = quiet
        self.verbose = verbose
        self.debug = debug
        self._said: set[str] = set()
        self._status: Status | None = None
        self._bar: Bar | None = None

    @property
    def moving(self) -> bool:
        """Whether progress may be shown: on a terminal that can take it back again."""
        return not self.quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def error(self, error: Exception, path: str | None = None) -> VidcapError:
        """Prints one line, the hint if there is one, and returns the error as explained."""
        if self.debug:
            self._print("".join(traceback.format_exception(error)).rstrip("\n"))
        known = explain(error)
        self._say("error", known.message, path)
        if known.hint:
            self._print(f"hint: {_flat(known.hint)}")
        return known

    def warning(self, message: str, path: str | None = None) -> None:
        """Something went less than well; said once for each input."""
        if not self.quiet:
            self._say_once("warning", message, path)

    def notice(self, message: str) -> None:
        """Something worth knowing; said once."""
        if not self.quiet:
            self._say_once("notice", message, None)

    def detail(self, message: str, path: str | None = None) -> None:
        """Something for ``-v``."""
        if self.verbose and not self.quiet:
            self._say("info", message, path)

    def line(self, text: str) -> None:
        """Prints a line that was asked for, such as a row of the profile."""
        self._print(text)

    def draw(self, renderable: Any) -> None:
        """Prints a Rich table that was asked for."""
        from rich.console import Console as RichConsole

        self.still()
        with contextlib.suppress(OSError):
            RichConsole(file=sys.stderr, highlight=False, markup=False, emoji=False).print(
                renderable
            )

    def busy(self, what: str) -> None:
        """Shows on a terminal what is going on until something else is said or shown."""
        if not self.moving:
            return
        if self._bar is not None:
            self._bar.show(what)
            return
        from rich.console import Console as RichConsole
        from rich.text import Text

        words = Text(what, no_wrap=True, overflow="ellipsis")
        if self._status is None:
            self._status = RichConsole(stderr=True).status(words)
            self._status.start()
        else:
            self._status.update(words)

    def count(self, bar: Bar) -> None:
        """From now on shows a bar in place of a line, on a terminal."""
        self.still()
        self._bar = bar

    def still(self) -> None:
        """Takes the progress line or bar away."""
        if self._bar is not None:
            self._bar.hide()
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _say_once(self, level: str, message: str, path: str | None) -> None:
        key = f"{level}\0{path}\0{message}"
        if key not in self._said:
            self._said.add(key)
            self._say(level, message, path)

    def _say(self, level: str, message: str, path: str | None) -> None:
        where = f"{one_line(path) or repr(path)}: " if path is not None else ""
        self._print(f"vidcap: {level}: {where}{_flat(message)}")

    def _print(self, line: str) -> None:
        self.still()
        # A reader of stderr that went away is no reason to lose the answer.
        with contextlib.suppress(OSError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


def _flat(message: str) -> str:
    return one_line(" ".join(message.split()))
