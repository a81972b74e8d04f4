"""The progress bar of a batch on a terminal: files, stage, tokens per second, time left."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """A bar that can be taken away for other output and comes back where it was.

    Args:
        total: number of files, None where nobody knows.
    """

    def __init__(self, total: int | None):
        self._total = total
        self._done = 0
        self._tokens = 0
        self._seconds = 0.0
        self._bar: tuple[Progress, TaskID] | None = None
        self._shown = False

    def show(self, stage: str) -> None:
        """Draws it, saying what goes on."""
        if self._bar is None:
            self._bar = _make_bar(self._total)
        progress, task = self._bar
        progress.update(task, completed=self._done, stage=stage, rate=self._rate())
        if not self._shown:
            progress.start()
            self._shown = True

    def hide(self) -> None:
        """Takes it away."""
        if self._bar is not None and self._shown:
            self._bar[0].stop()
            self._shown = False

    def advance(self) -> None:
        """One more file is done."""
        self._done += 1

    def count(self, tokens: int, seconds: float) -> None:
        """So many tokens more took so many seconds more."""
        self._tokens += tokens
        self._seconds += seconds

    def _rate(self) -> str:
        return f"{self._tokens / self._seconds:.0f} tokens/s" if self._seconds else ""


def _make_bar(total: int | None) -> tuple[Progress, TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
    from rich.progress import TextColumn as Text
    from rich.table import Column

    # Paths in the stage are no markup, and too long a one is cut instead of wrapped.
    columns: tuple[Any, ...] = (
        BarColumn(20),
        MofNCompleteColumn(),
        Text("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(),
        Text(
            "{task.fields[stage]}",
            markup=False,
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        ),
    )
    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    progress = Progress(*columns, console=console, transient=True, expand=True)
    return progress, progress.add_task("", total=total, stage="", rate="")
