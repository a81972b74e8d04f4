"""Which moments of a video are sampled, and which frame stands for each of them.

Everything is exact: times are fractions of seconds, as the time stamps of the files are.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from vidcap.errors import InputError
from vidcap.settings import VideoSettings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """The moments to sample.

    Attributes:
        targets: increasing times in seconds from the first frame.
        start, end: the range they cover; `end` itself is not sampled.
        warnings: what the user should know, one sentence each.
    """

    targets: tuple[Fraction, ...]
    start: Fraction
    end: Fraction
    warnings: tuple[str, ...] = ()


def plan_sampling(settings: VideoSettings, duration: Fraction | float | None) -> SamplingPlan:
    """The moments that `settings` ask for in a video of `duration` seconds.

    Every 1/fps seconds from the start of the range; where that makes more than `max_frames`, as
    many spread evenly over the range. A video of unknown duration counts as one frame.

    Raises:
        InputError: the range lies behind the end of the video.
    """
    length = Fraction(0) if duration is None else Fraction(duration)
    start = exact(settings.start_s)
    if start and start >= length:
        raise InputError(
            f"--start {settings.start_s:g} s is past the end of the video ({float(length):.1f} s)"
        )
    end, warnings = max(length, Fraction(0)), []
    if settings.end_s is not None:
        wanted = exact(settings.end_s)
        if wanted - length >= Fraction(1, 10):
            warnings.append(
                f"--end {settings.end_s:g} s is past the end of the video ({float(length):.1f} s)"
            )
        end = min(wanted, end)
    return plan_range(settings, start, end, tuple(warnings))


def plan_range(
    settings: VideoSettings, start: Fraction, end: Fraction, warnings: tuple[str, ...] = ()
) -> SamplingPlan:
    """The moments that the rate and the number of frames of `settings` give in a range."""
    step = 1 / exact(settings.fps)
    count = max(1, math.ceil((end - start) / step))
    if count > settings.max_frames:
        count = settings.max_frames
        step = (end - start) / count
    targets = tuple(start + k * step for k in range(count))
    return SamplingPlan(targets, start, end, warnings)


def exact(seconds: float) -> Fraction:
    """The decimal number that was typed, not its nearest binary float: 0.1 is 1/10."""
    return Fraction(str(seconds))


class NearestFrames(Generic[T]):
    """Picks, from frames that pass by in order, the nearest one for each target.

    A frame is picked once, even where it is the nearest for several targets; of two equally near
    frames the earlier one wins.

    Attributes:
        distance: from a target to its frame, the largest so far.
    """

    def __init__(self, targets: Iterable[Fraction]):
        self._targets = deque(targets)
        self._latest: tuple[Fraction, T] | None = None
        self._latest_used = False
        self.distance = Fraction(0)

    @property
    def next_target(self) -> Fraction | None:
        """The earliest target that no frame stands for yet, None when all are done."""
        return self._targets[0] if self._targets else None

    def feed(self, time: Fraction, frame: T) -> list[tuple[Fraction, T]]:
        """Takes the next frame; returns those (time, frame) that it decided on, in order."""
        picked = []
        earlier, earlier_used = self._latest, self._latest_used
        self._latest, self._latest_used = (time, frame), False
        while self._targets and self._targets[0] <= time:
            target = self._targets.popleft()
            if earlier is not None and target - earlier[0] <= time - target:
                self.distance = max(self.distance, target - earlier[0])
                if not earlier_used:
                    picked.append(earlier)
                    earlier_used = True
                continue
            self.distance = max(self.distance, time - target)
            if not self._latest_used:
                picked.append((time, frame))
                self._latest_used = True
        return picked

    def finish(self, shown_until: Fraction) -> list[tuple[Fraction, T]]:
        """No frame follows: the last one stands for the targets up to `shown_until`."""
        reached = False
        while self._targets and self._targets[0] <= shown_until:
            target = self._targets.popleft()
            if self._latest is not None:
                self.distance = max(self.distance, abs(target - self._latest[0]))
            reached = True
        if not reached or self._latest is None or self._latest_used:
            return []
        self._latest_used = True
        return [self._latest]
