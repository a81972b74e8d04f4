"""Fixtures of the video tests."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from tests.video.clips import ClipMaker
from vidcap.video.reader import FrameReader


@pytest.fixture
def make_clip(tmp_path: Path) -> ClipMaker:
    """Writes clips into the test's own folder."""
    return ClipMaker(tmp_path)


@pytest.fixture
def jumps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time stamps of all jumps that are made."""
    made: list[int] = []
    original = FrameReader.seek

    def seek(self: FrameReader, stamp: int) -> None:
        made.append(stamp)
        original(self, stamp)

    monkeypatch.setattr(FrameReader, "seek", seek)
    return made


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The PTS of all frames that are decoded, wanted or not."""
    seen: list[int] = []
    original = FrameReader.__next__

    def next_frame(self: FrameReader) -> av.VideoFrame:
        frame = original(self)
        seen.append(frame.pts)
        return frame

    monkeypatch.setattr(FrameReader, "__next__", next_frame)
    return seen
