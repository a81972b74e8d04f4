"""The sampled frames of a video, decoded in one pass forward.

Memory follows the sampled frames, not the file: each is scaled while it is at hand and written into
one array.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import av
import numpy as np

from vidcap.errors import InputError
from vidcap.settings import VideoSettings
from vidcap.video.clock import Clock
from vidcap.video.info import Frames, FrameSize
from vidcap.video.probe import Look, first_frame, look_at
from vidcap.video.reader import FrameReader
from vidcap.video.render import FrameRenderer, appearance_warnings
from vidcap.video.sampling import NearestFrames, SamplingPlan, plan_sampling
from vidcap.video.seeking import TimedFrames
from vidcap.video.shortcuts import ShortcutMissedError, Shortcuts
from vidcap.video.source import VideoSource, open_source

#: Containers that store decoding times only; their PTS are made up.
_DTS_ONLY = frozenset({"avi"})


def load_frames(
    path: str | os.PathLike[str],
    settings: VideoSettings,
    frame_size: FrameSize,
    *,
    threads: int = 1,
    should_stop: Callable[[], bool] | None = None,
) -> Frames:
    """Samples a video.

    For each moment of the plan the nearest frame in time is taken, once. A damaged file gives what
    can be decoded, with a warning.

    Args:
        path: a local file.
        settings: which moments are sampled.
        frame_size: the size of the result, asked with the number of planned frames.
        threads: decoding threads.
        should_stop: asked between packets; True ends the work.

    Raises:
        InputError: the file is not a video, the range holds no frame, or nothing can be decoded.
        DecodingInterruptedError: `should_stop` returned True.
    """
    shortcuts = Shortcuts()
    while True:
        try:
            return _load(path, settings, frame_size, threads, should_stop, shortcuts)
        except ShortcutMissedError as missed:
            shortcuts = shortcuts.without(missed)


def _load(
    path: str | os.PathLike[str],
    settings: VideoSettings,
    frame_size: FrameSize,
    threads: int,
    should_stop: Callable[[], bool] | None,
    shortcuts: Shortcuts,
) -> Frames:
    with open_source(path) as source:
        sampler = Sampler(source, threads, should_stop, shortcuts)
        plan = plan_sampling(settings, sampler.look.duration)
        frames = sampler.sample(plan, frame_size)
    if not len(frames.times_s):
        raise nothing_decoded(plan)
    return frames


def nothing_decoded(plan: SamplingPlan) -> InputError:
    """Says that a range gave no frame at all."""
    return InputError(
        f"no frame could be decoded between {float(plan.start):.1f} s "
        f"and {float(plan.end):.1f} s (truncated or damaged)"
    )


class Sampler:
    """An open video that is sampled plan by plan, each later than the one before.

    Args:
        source: the open file.
        threads: decoding threads.
        should_stop: asked between packets.
        shortcuts: what may be left out in between.

    Attributes:
        look: what the video is.
        decoded_until: up to which time the latest plan could be read, its end if all of it.

    Raises:
        InputError: nothing can be decoded.
    """

    def __init__(
        self,
        source: VideoSource,
        threads: int,
        should_stop: Callable[[], bool] | None,
        shortcuts: Shortcuts,
    ):
        self._reader = FrameReader(source, threads=threads, should_stop=should_stop)
        first = first_frame(self._reader)
        self.look = look_at(source, first, should_stop)
        self._clock = _clock(source, self.look)
        self._frames = TimedFrames(source, self._reader, self._clock, first, shortcuts=shortcuts)
        # The two frames around the last moment of a plan may be the nearest to the next plan's.
        self._recent: deque[tuple[Fraction, av.VideoFrame]] = deque(maxlen=2)
        self._corrupt_before = 0
        self.decoded_until = Fraction(0)

    def sample(
        self, plan: SamplingPlan, frame_size: FrameSize, *, asked_end: Fraction | None = None
    ) -> Frames:
        """The frames of a plan; none where the video ended before it.

        Args:
            plan: the moments.
            frame_size: the size of the result, asked with the number of planned frames.
            asked_end: end of all plans together, for the warning that it was not reached.

        Raises:
            ShortcutMissedError: the file has to be decoded again without a shortcut.
            DecodingInterruptedError: `should_stop` returned True.
        """
        canvas = _Canvas.for_plan(plan, self.look, frame_size)
        self.decoded_until = self._fill(canvas, plan)
        warnings = list(plan.warnings)
        if self.decoded_until < plan.end:
            end = plan.end if asked_end is None else asked_end
            warnings.append(f"decoded {float(self.decoded_until):.1f} s of {float(end):.1f} s")
        corrupt = self._reader.corrupt - self._corrupt_before
        self._corrupt_before = self._reader.corrupt
        if corrupt:
            warnings.append(f"left out {corrupt} damaged frame{'s' if corrupt > 1 else ''}")
        warnings.extend(appearance_warnings(self.look.info))
        return canvas.frames(
            info=self.look.info,
            decoded_s=float(self.decoded_until),
            corrupt_frames=corrupt,
            warnings=tuple(warnings),
        )

    def _fill(self, canvas: _Canvas, plan: SamplingPlan) -> Fraction:
        """Fills the canvas; returns up to which time the video could be read."""
        nearest: NearestFrames[av.VideoFrame] = NearestFrames(plan.targets)
        self._frames.want(plan.targets)
        for time, frame in self._from_recent():
            for picked in nearest.feed(time, frame):
                canvas.add(*picked)
            self._frames.check(nearest.distance)
            target = nearest.next_target
            if target is None:
                return plan.end
            self._frames.approach(target)
        # A target within a frame of the end is reached: durations are rounded in many files.
        for picked in nearest.finish(self._frames.shown_until + self._clock.frame_period):
            canvas.add(*picked)
        self._frames.check(nearest.distance)
        reached = nearest.next_target is None
        return plan.end if reached else min(self._frames.shown_until, plan.end)

    def _from_recent(self) -> Iterator[tuple[Fraction, av.VideoFrame]]:
        yield from tuple(self._recent)
        for item in self._frames:
            self._recent.append(item)
            yield item


@dataclass(slots=True)
class _Canvas:
    """The array that the sampled frames are written into, and their times."""

    renderer: FrameRenderer
    rgb: np.ndarray
    times: list[Fraction] = field(default_factory=list)

    @classmethod
    def for_plan(cls, plan: SamplingPlan, look: Look, frame_size: FrameSize) -> _Canvas:
        count = len(plan.targets)
        height, width = frame_size(count, look.info.height, look.info.width)
        rgb = np.empty((count, height, width, 3), np.uint8)
        return cls(FrameRenderer(height, width, look.orientation), rgb)

    def add(self, time: Fraction, frame: av.VideoFrame) -> None:
        self.renderer.render(frame, self.rgb[len(self.times)])
        self.times.append(time)

    def frames(self, **facts: Any) -> Frames:
        """What was added, with the given further fields."""
        times_s = np.array([float(time) for time in self.times], np.float64)
        return Frames(rgb=self.rgb[: len(times_s)], times_s=times_s, **facts)


def _clock(source: VideoSource, look: Look) -> Clock:
    return Clock(
        source.stream.time_base or Fraction(1, 1000),
        look.frame_period,
        stamps_are_dts=look.info.container in _DTS_ONLY,
        end=look.duration,
    )
