"""What a run over videos says beside the answers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from vidcap.cli.console import Console
from vidcap.cli.profile import print_profile
from vidcap.cli.progress import Bar
from vidcap.output.record import Record, VideoPart
from vidcap.output.text import one_line

if TYPE_CHECKING:
    from vidcap.captioner import Captioner


class ConsoleHost:
    """Tells on a console how a batch goes.

    Args:
        captioner: whose notices are told.
        console: where.
        profile: whether to print the profile of every answer.
        notices: whether to tell the notices.
        bar: counts the inputs, None for no bar.
        prints: whether answers go to standard output.
    """

    def __init__(
        self,
        captioner: Captioner,
        console: Console,
        *,
        profile: bool,
        notices: bool = True,
        bar: Bar | None = None,
        prints: bool = True,
    ):
        self._captioner = captioner
        self._console = console
        self._profile = profile
        self._wants_notices = notices
        self._bar = bar
        # Nothing may move below words that are written to the same terminal.
        self._must_hide = bar is None or (prints and sys.stdout.isatty())

    def loading(self) -> None:
        """Says what the user should know about the pair."""
        self._tell_notices()
        self._console.busy(f"loading {self._captioner.pair_name}")

    def loaded(self) -> None:
        """Says what turned out while it was loaded."""
        self._tell_notices()
        for warning in self._captioner.warnings:
            self._console.warning(warning)

    def stage(self, what: str, path: str) -> None:
        """Shows what happens now."""
        self._console.busy(f"{what} {one_line(path)}")

    def words(self) -> None:
        """Makes room for words."""
        if self._must_hide:
            self._console.still()

    def answered(self, record: Record) -> None:
        """Says what else there is to say about an answer."""
        for warning in record.warnings:
            self._console.warning(warning, record.path)
        if record.speculation is not None and record.speculation.fallback is not None:
            # Without the figures of the record, so that it is said once for all inputs.
            self._console.notice("drafting was switched off, because it does not pay")
        if record.video is not None and record.video.frame_times_s:
            self._console.detail(_frames_seen(record.video), record.path)
        self._console.detail(_summary(record), record.path)
        if self._profile:
            print_profile(record, self._console)
        if self._bar is not None and record.tokens and record.timing:
            self._bar.count(record.tokens.generated, record.timing.decode_s or 0.0)

    def failed(self, path: str, error: Exception) -> None:
        """Says why there is no answer."""
        self._console.error(error, path)

    def skipped(self, path: str) -> None:
        """Says that there is nothing to do."""
        self._console.detail("done already", path)

    def finished(self, path: str) -> None:
        """Counts an input."""
        if self._bar is not None:
            self._bar.advance()

    def _tell_notices(self) -> None:
        if self._wants_notices:
            for notice in self._captioner.notices:
                self._console.notice(notice)


def _frames_seen(video: VideoPart) -> str:
    times = ", ".join(f"{time_s:.2f}" for time_s in video.frame_times_s)
    read = "" if video.decoded_s is None else f", read up to {video.decoded_s:.1f} s"
    length = "" if video.duration_s is None else f" of {video.duration_s:.1f} s"
    frames = "frame" if video.frames_used == 1 else "frames"
    return f"{video.frames_used} {frames} at {times} s{read}{length}"


def _summary(record: Record) -> str:
    words = [f"{record.tokens.generated} tokens"] if record.tokens else []
    timing, speculation = record.timing, record.speculation
    if timing and timing.total_s is not None:
        words.append(f"{timing.total_s:.2f} s")
    if timing and timing.tokens_per_s is not None:
        words.append(f"{timing.tokens_per_s:.1f} tokens/s")
    if speculation and speculation.mean_acceptance_length is not None:
        words.append(f"{speculation.mean_acceptance_length:.2f} tokens per target call")
    if record.finish_reason:
        words.append(f"ended by {record.finish_reason}")
    return ", ".join(words)
