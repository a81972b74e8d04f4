"""The sampled frames of a video, decoded in one pass forward.

Memory follows the sampled frames, not the file: each is scaled while it is at hand and written into
one array.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import av
import numpy as np

from vidcap.errors import InputError
from vidcap.settings import VideoSettings
from vidcap.video.clock import Clock
from vidcap.video.info import Frames, FrameSize
from vidcap.video.probe import Look, first_frame, look_at
from vidcap.video.reader import FrameReader
from vidcap.video.render import FrameRenderer, colour_warning
from vidcap.video.sampling import NearestFrames, SamplingPlan, plan_sampling
from vidcap.video.seeking import SeekMissedError, TimedFrames
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
    try:
        return _load(path, settings, frame_size, threads, should_stop, allow_jumps=True)
    except SeekMissedError:
        return _load(path, settings, frame_size, threads, should_stop, allow_jumps=False)


def _load(
    path: str | os.PathLike[str],
    settings: VideoSettings,
    frame_size: FrameSize,
    threads: int,
    should_stop: Callable[[], bool] | None,
    *,
    allow_jumps: bool,
) -> Frames:
    with open_source(path) as source:
        reader = FrameReader(source, threads=threads, should_stop=should_stop)
        first = first_frame(reader)
        look = look_at(source, first, should_stop)
        plan = plan_sampling(settings, look.duration)
        clock = _clock(source, look)
        canvas = _Canvas.for_plan(plan, look, frame_size)
        frames = TimedFrames(source, reader, clock, first, allow_jumps=allow_jumps)
        decoded_until = _sample(frames, plan, canvas, clock.frame_period)
        return _result(look, plan, canvas, decoded_until, reader.corrupt, colour_warning(first))


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


def _clock(source: VideoSource, look: Look) -> Clock:
    return Clock(
        source.stream.time_base or Fraction(1, 1000),
        look.frame_period,
        stamps_are_dts=look.info.container in _DTS_ONLY,
        end=look.duration,
    )


def _sample(
    frames: TimedFrames, plan: SamplingPlan, canvas: _Canvas, frame_period: Fraction
) -> Fraction:
    """Fills the canvas; returns up to which time the video could be read."""
    nearest: NearestFrames[av.VideoFrame] = NearestFrames(plan.targets)
    for time, frame in frames:
        for picked in nearest.feed(time, frame):
            canvas.add(*picked)
        target = nearest.next_target
        if target is None:
            return plan.end
        frames.approach(target)
    # A target within a frame of the end is reached: durations are rounded in many files.
    for picked in nearest.finish(frames.shown_until + frame_period):
        canvas.add(*picked)
    return plan.end if nearest.next_target is None else min(frames.shown_until, plan.end)


def _result(
    look: Look,
    plan: SamplingPlan,
    canvas: _Canvas,
    decoded_until: Fraction,
    corrupt: int,
    colours: str | None,
) -> Frames:
    count = len(canvas.times)
    if count == 0:
        raise InputError(
            f"no frame could be decoded between {float(plan.start):.1f} s "
            f"and {float(plan.end):.1f} s (truncated or damaged)"
        )
    warnings = list(plan.warnings)
    if decoded_until < plan.end:
        warnings.append(f"decoded {float(decoded_until):.1f} s of {float(plan.end):.1f} s")
    if corrupt:
        warnings.append(f"left out {corrupt} damaged frame{'s' if corrupt > 1 else ''}")
    if colours is not None:
        warnings.append(colours)
    return Frames(
        rgb=canvas.rgb[:count],
        times_s=np.array([float(time) for time in canvas.times], np.float64),
        info=look.info,
        decoded_s=float(decoded_until),
        corrupt_frames=corrupt,
        warnings=tuple(warnings),
    )
