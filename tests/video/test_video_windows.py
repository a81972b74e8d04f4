"""Windows of a video: each is what it would be by itself, and nothing is kept of earlier ones."""

from __future__ import annotations

import weakref
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from tests.video.clips import same_size
from vidcap.errors import InputError, UsageError
from vidcap.settings import VideoSettings
from vidcap.video import load_frames, load_windows, plan_windows
from vidcap.video.seeking import TimedFrames
from vidcap.video.shortcuts import SeekMissedError

FPS_2 = VideoSettings(fps=2, every_s=1.0)


def ranges(settings: VideoSettings, duration: float) -> list[tuple[float, float]]:
    plans = plan_windows(settings, Fraction(str(duration)))
    return [(float(plan.start), float(plan.end)) for plan in plans]


def test_windows_cover_the_range_without_a_gap():
    assert ranges(VideoSettings(every_s=30), 70) == [(0, 30), (30, 60), (60, 70)]
    settings = VideoSettings(every_s=30, start_s=10, end_s=65)
    assert ranges(settings, 70) == [(10, 40), (40, 65)]
    assert ranges(VideoSettings(every_s=30), 20) == [(0, 20)]
    assert ranges(VideoSettings(every_s=30), 60) == [(0, 30), (30, 60)]


def test_a_rest_shorter_than_a_sampling_step_belongs_to_the_window_before():
    assert ranges(VideoSettings(every_s=30), 60.04) == [(0, 30), (30, 60.04)]
    assert ranges(VideoSettings(every_s=30), 60.6) == [(0, 30), (30, 60), (60, 60.6)]
    assert ranges(VideoSettings(every_s=0.4), 0.9) == [(0, 0.4), (0.4, 0.9)]


def test_the_number_of_frames_holds_for_each_window():
    plans = plan_windows(VideoSettings(every_s=10, max_frames=4), Fraction(20))
    assert [[float(time) for time in plan.targets] for plan in plans] == [
        [0, 2.5, 5, 7.5],
        [10, 12.5, 15, 17.5],
    ]


def test_windows_that_make_no_sense_are_a_usage_error():
    with pytest.raises(UsageError, match="--every must be at least"):
        VideoSettings(every_s=0)


def test_a_video_that_claims_to_last_for_centuries_is_refused():
    with pytest.raises(InputError, match="make 10000000000 windows of 1 s, and 86400 are"):
        plan_windows(VideoSettings(every_s=1), Fraction(10**10))
    day = plan_windows(VideoSettings(every_s=60, max_frames=1), Fraction(86_400))
    assert len(day) == 1440


@pytest.mark.parametrize(
    ("name", "codec", "fps"),
    [
        ("a.mp4", "libx264", 30),
        ("a.mkv", "libx264", 24),
        ("a.ts", "mpeg2video", 25),
        ("slow.mp4", "libx264", 0.7),
    ],
)
def test_a_window_holds_what_it_would_hold_by_itself(make_clip, name, codec, fps):
    clip = make_clip(name, codec, frames=round(4.3 * fps) if fps > 1 else 5, fps=fps)
    settings = replace(FPS_2, every_s=1.0 if fps > 1 else 2.0)
    windows = list(load_windows(clip, settings, same_size))
    assert len(windows) > 2
    for before, after in pairwise(windows):
        assert before.end_s == after.start_s
    for window in windows:
        alone = VideoSettings(fps=2, start_s=window.start_s, end_s=window.end_s)
        expected = load_frames(clip, alone, same_size)
        np.testing.assert_array_equal(window.frames.times_s, expected.times_s)
        np.testing.assert_array_equal(window.frames.rgb, expected.rgb)


def test_nothing_is_kept_of_a_window_that_was_handed_out(make_clip):
    clip = make_clip("a.mp4", frames=150)
    alive = []
    for window in load_windows(clip, FPS_2, same_size):
        alive.append(weakref.ref(window.frames.rgb.base))
        assert sum(reference() is not None for reference in alive) == 1
        del window
        assert alive[-1]() is None
    assert len(alive) == 5


def test_jumps_that_miss_are_made_good_from_the_window_where_it_happened(make_clip, monkeypatch):
    clip = make_clip("a.mp4", frames=150)
    expected = [window.frames.times_s.tolist() for window in load_windows(clip, FPS_2, same_size)]
    approach = TimedFrames.approach

    def miss_once(self, target):
        if self._may_jump and target > 2:
            raise SeekMissedError
        approach(self, target)

    monkeypatch.setattr(TimedFrames, "approach", miss_once)
    windows = list(load_windows(clip, FPS_2, same_size))
    assert [window.frames.times_s.tolist() for window in windows] == expected


def test_a_video_that_ends_too_soon_says_so_in_its_last_window(make_clip):
    whole = make_clip("a.mkv", frames=150, gop=6)
    cut = whole.with_name("cut.mkv")
    data = whole.read_bytes()
    cut.write_bytes(data[: len(data) * 6 // 10])
    windows = list(load_windows(cut, FPS_2, same_size))
    assert 2 < len(windows) < 6
    *before, last = windows
    assert not any(window.frames.warnings for window in before)
    assert any(
        warning.startswith("decoded ") and warning.endswith("of 5.0 s")
        for warning in last.frames.warnings
    )
    assert all(window.end_s >= window.start_s for window in windows)


def test_a_start_past_the_end_is_an_input_error(make_clip):
    clip = make_clip("a.mp4", frames=30)
    with pytest.raises(InputError, match="past the end"):
        list(load_windows(clip, replace(FPS_2, start_s=5.0), same_size))


def test_half_of_the_frames_are_every_second_one(make_clip):
    frames = load_frames(make_clip("a.mp4", frames=100), VideoSettings(fps=5), same_size)
    half = frames.thinned()
    assert half.times_s.tolist() == frames.times_s.tolist()[::2]
    np.testing.assert_array_equal(half.rgb, frames.rgb[::2])
    assert len(frames.thinned().thinned().thinned().thinned().thinned().thinned().times_s) == 1


def test_a_jump_that_misses_is_tried_with_more_reserve_before_none_is_made(make_clip, monkeypatch):
    clip = make_clip("a.mp4", frames=300, gop=25)
    reserves = []
    approach = TimedFrames.approach

    def miss_twice(self, target):
        reserves.append(self._reserve_frames if self._may_jump else None)
        if self._may_jump:
            raise SeekMissedError
        approach(self, target)

    expected = load_frames(clip, FPS_2, same_size)
    monkeypatch.setattr(TimedFrames, "approach", miss_twice)
    found = load_frames(clip, FPS_2, same_size)
    assert list(dict.fromkeys(reserves)) == [4, 20, None]
    assert found.times_s.tolist() == expected.times_s.tolist()
    assert (found.rgb == expected.rgb).all()
