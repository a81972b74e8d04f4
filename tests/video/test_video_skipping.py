"""Frames that no other frame refers to are left out far from what is wanted, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.video.clips import ClipMaker, calm_picture, read_all, same_size
from tests.video.test_video_decode import check
from vidcap.settings import VideoSettings
from vidcap.video import load_frames, load_windows
from vidcap.video.clock import Clock
from vidcap.video.shortcuts import ShortcutMissedError, Shortcuts
from vidcap.video.skipping import Skipper, can_skip
from vidcap.video.source import open_source

FORMATS = [
    ("a.mp4", "libx264", {"bf": "3"}),
    ("a.mkv", "libx264", {"bf": "3", "b-pyramid": "none"}),
    ("a.ts", "libx264", {"bf": "3"}),
    ("b.mp4", "libx265", {}),
    ("b.mkv", "libx265", {}),
    ("c.mp4", "mpeg4", {"bf": "2"}),
    ("c.ts", "mpeg2video", {"bf": "2"}),
]


@pytest.fixture
def missed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The shortcuts that turned out not to hold."""
    found: list[str] = []
    original = Shortcuts.without

    def without(self: Shortcuts, error: ShortcutMissedError) -> Shortcuts:
        found.append(error.shortcut)
        return original(self, error)

    monkeypatch.setattr(Shortcuts, "without", without)
    return found


@pytest.fixture
def make_calm(make_clip: ClipMaker) -> Callable[..., Path]:
    """Writes clips that consist of predicted frames almost only."""

    def make(name: str, codec: str, **options: str) -> Path:
        return make_clip(
            name, codec, frames=150, fps=30, size=(64, 48), gop=75, draw=calm_picture, **options
        )

    return make


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("name", "codec", "options"), FORMATS, ids=[f[0] for f in FORMATS])
def test_what_is_sampled_is_the_same_and_less_is_decoded(
    make_calm: Callable[..., Path],
    decoded: list[int],
    missed: list[str],
    name: str,
    codec: str,
    options: dict[str, str],
    threads: int,
) -> None:
    path = make_calm(name, codec, **options)
    settings = VideoSettings(fps=1.5, start_s=0.31)
    check(load_frames(path, settings, same_size, threads=threads), read_all(path), settings)
    assert len(decoded) < 0.8 * 150
    assert len(set(decoded)) == len(decoded)
    assert missed == []


def test_windows_hold_what_they_hold_without(
    make_calm: Callable[..., Path], decoded: list[int], missed: list[str]
) -> None:
    path = make_calm("a.mp4", "libx264", bf="3")
    settings = VideoSettings(fps=1.5, every_s=2.0)
    windows = [window.frames for window in load_windows(path, settings, same_size)]
    assert len(decoded) < 0.9 * 150
    assert missed == []
    whole = read_all(path)
    for frames in windows:
        for time, shown in zip(frames.times_s, frames.rgb, strict=True):
            assert np.array_equal(shown, whole.pictures[round(time * 30)])
    assert [frames.times_s.tolist() for frames in windows[1:]] == [
        pytest.approx([2, 2 + 20 / 30, 2 + 40 / 30]),
        pytest.approx([4, 4 + 20 / 30]),
    ]


def test_long_pauses_make_it_decode_everything(make_clip: ClipMaker, missed: list[str]) -> None:
    # Ten frames a second on the average, but in bursts: the nearest frame may be a second away.
    gaps = [20] * 9 + [820]
    stamps = np.cumsum([0, *gaps * 8])[:80].tolist()
    path = make_clip(
        "a.mp4",
        frames=80,
        stamps=stamps,
        time_base=Fraction(1, 1000),
        fps=10,
        gop=80,
        draw=calm_picture,
        **{"bf": "3", "x264-params": "scenecut=0"},
    )
    settings = VideoSettings(fps=0.71, start_s=0.57)
    check(load_frames(path, settings, same_size), read_all(path), settings)
    assert missed == ["skips"]


def test_no_codec_whose_frames_cannot_be_told(make_clip: ClipMaker) -> None:
    layers = {"x265-params": "log-level=none:temporal-layers=3:bframes=3"}
    answers = {
        make_clip("plain.mp4", "libx265", frames=8): True,
        make_clip("layers.mp4", "libx265", frames=8, **layers): False,
        make_clip("a.ts", "libx265", frames=8): False,
        make_clip("a.webm", "libvpx-vp9", frames=3): False,
        make_clip("a.avi", "mjpeg", frames=3, pixels="yuvj420p"): False,
    }
    for path, expected in answers.items():
        with open_source(path) as source:
            assert can_skip(source) is expected, path.name


def test_near_what_is_wanted_and_behind_it_nothing_is_left_out(make_clip: ClipMaker) -> None:
    with open_source(make_clip("a.mp4", frames=2)) as source:
        base = source.stream.time_base
        assert base is not None
        clock = Clock(base, Fraction(1, 10))
        skipper = Skipper(source, clock)
        assert skipper.near == Fraction(3, 10)
        skipper.want([Fraction(1), Fraction(2)])

        def skipped(time: float) -> bool:
            return skipper.may_skip(clock.stamp(Fraction(str(time))))

        assert not any(map(skipped, (0.7, 0.9, 1.0, 1.3, 1.7, 2.0, 2.3, 2.4, 9.0)))
        assert not skipper.used
        assert all(map(skipped, (0.0, 0.6, 1.4, 1.6)))
        assert skipper.used
        assert not skipper.may_skip(None)
        clock.regular = False
        assert not skipped(0.0)
