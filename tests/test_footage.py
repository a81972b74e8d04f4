"""Decoding ahead: in turn, one video at a time, on the threads that are kept for it."""

from __future__ import annotations

import threading
import time

import pytest

from tests.video.clips import ClipMaker, same_size
from vidcap import footage
from vidcap.errors import InputError
from vidcap.footage import Footage
from vidcap.settings import VideoSettings


@pytest.fixture
def clips(tmp_path):
    make = ClipMaker(tmp_path)
    return [str(make(f"{number}.mp4", frames=10)) for number in range(3)]


@pytest.fixture
def decoded(monkeypatch):
    """(path, threads) of every decoding; fails where two run at once."""
    seen, busy = [], threading.Lock()
    original = footage.load_frames

    def load_frames(path, *args, threads, should_stop):
        assert busy.acquire(blocking=False), "two videos are decoded at once"
        try:
            time.sleep(0.05)
            seen.append((path, threads))
            return original(path, *args, threads=threads, should_stop=should_stop)
        finally:
            busy.release()

    monkeypatch.setattr(footage, "load_frames", load_frames)
    return seen


def test_videos_are_decoded_in_turn_and_once(clips, decoded):
    reader = Footage(VideoSettings(), same_size, threads=4)
    reader.prefetch(clips[0])
    for path in (*clips, *clips):
        reader.prefetch(path, 1)
    for path in clips:
        frames, seconds = reader.take(path)
        assert frames.info.path == path
        assert seconds > 0
    assert decoded == [(clips[0], 4), (clips[1], 1), (clips[2], 1)]
    reader.take(clips[0])
    assert decoded[3:] == [(clips[0], 4)]


def test_a_failure_arrives_where_its_video_is_taken(clips, tmp_path):
    reader = Footage(VideoSettings(), same_size, threads=1)
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    for path in (str(broken), clips[0]):
        reader.prefetch(path)
    assert len(reader.take(clips[0])[0].times_s)
    with pytest.raises(InputError, match="not a video"):
        reader.take(str(broken))


def test_the_whole_video_is_one_window(clips):
    settings = VideoSettings(start_s=0.1)
    (window,) = Footage(settings, same_size, threads=1).windows(clips[0])
    assert (window.start_s, window.end_s) == (0.1, pytest.approx(1 / 3, abs=0.01))
    assert window.waited_s >= 0


def test_windows_are_not_decoded_ahead(clips, decoded):
    reader = Footage(VideoSettings(every_s=0.1), same_size, threads=1)
    reader.prefetch(clips[0])
    time.sleep(0.1)
    assert decoded == []
    assert len(list(reader.windows(clips[0]))) == 3
