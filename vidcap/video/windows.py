"""A video cut into windows of equal length, decoded one after the other in one pass forward."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from vidcap.errors import InputError
from vidcap.settings import VideoSettings
from vidcap.video.decode import Sampler, nothing_decoded
from vidcap.video.info import Frames, FrameSize
from vidcap.video.sampling import SamplingPlan, exact, plan_range, plan_sampling
from vidcap.video.shortcuts import ShortcutMissedError, Shortcuts
from vidcap.video.source import open_source

#: Windows of one video: a day in seconds. Damaged files claim to last for centuries.
MAX_WINDOWS = 86_400


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a video.

    Attributes:
        start_s, end_s: in seconds from the first frame, by the time stamps of the file.
        frames: its sampled frames. A last window without any only says, by its warnings, that the
            video ended too soon.
        decode_s: seconds that decoding took.
        waited_s: seconds that nothing else was done meanwhile.
    """

    start_s: float
    end_s: float
    frames: Frames
    decode_s: float
    waited_s: float


def plan_windows(
    settings: VideoSettings, duration: Fraction | float | None
) -> tuple[SamplingPlan, ...]:
    """The windows of ``every_s`` that `settings` ask for in a video of `duration` seconds.

    They follow each other without a gap. What is left at the end is a window of its own, except
    where it is shorter than a sampling step: then the last window reaches to the end.

    Raises:
        InputError: the range lies behind the end of the video, or makes too many windows.
    """
    whole = plan_sampling(settings, duration)
    if settings.every_s is None:
        return (whole,)
    length, step = exact(settings.every_s), 1 / exact(settings.fps)
    count = max(1, -((whole.start - whole.end) // length))
    if count > 1 and whole.end - whole.start - (count - 1) * length < min(step, length / 2):
        count -= 1
    if count > MAX_WINDOWS:
        raise InputError(
            f"{float(whole.end - whole.start):.0f} s make {count} windows of "
            f"{settings.every_s:g} s, and {MAX_WINDOWS} are the most",
            hint="a longer --every, or a range by --start and --end",
        )
    starts = [whole.start + k * length for k in range(count)]
    ends = [*starts[1:], whole.end]
    plans = [plan_range(settings, *window) for window in zip(starts, ends, strict=True)]
    return (replace(plans[0], warnings=whole.warnings), *plans[1:])


def load_windows(
    path: str | os.PathLike[str],
    settings: VideoSettings,
    frame_size: FrameSize,
    *,
    threads: int = 1,
    should_stop: Callable[[], bool] | None = None,
) -> Iterator[Window]:
    """Samples a video window by window; each holds the frames that it would hold by itself.

    Nothing is kept of a window that was handed out, so a long video needs no more memory than one
    window. Arguments and errors are those of ``load_frames``.
    """
    done, shortcuts = 0, Shortcuts()
    while True:
        try:
            with open_source(path) as source:
                sampler = Sampler(source, threads, should_stop, shortcuts)
                plans = plan_windows(settings, sampler.look.duration)
                for plan in plans[done:]:
                    # Not bound to a name: it would stay alive while the next one is decoded.
                    yield _window(sampler, plan, frame_size, plans)
                    done += 1
                    if sampler.decoded_until < plan.end:
                        return
                return
        except ShortcutMissedError as missed:
            shortcuts = shortcuts.without(missed)


def _window(
    sampler: Sampler, plan: SamplingPlan, frame_size: FrameSize, plans: tuple[SamplingPlan, ...]
) -> Window:
    begin = time.perf_counter()
    frames = sampler.sample(plan, frame_size, asked_end=plans[-1].end)
    if plan is plans[0] and not len(frames.times_s):
        raise nothing_decoded(plan)
    seconds = time.perf_counter() - begin
    start_s = float(plan.start)
    return Window(start_s, max(start_s, frames.decoded_s), frames, seconds, seconds)
