"""The comparison of readers of video: what it runs, and that it sees frames that are not right."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import pytest

from tests.video.clips import ClipMaker
from vidcap.bench import reading
from vidcap.bench.readers import main, repeat_clip
from vidcap.bench.reading import READERS, Reader, Reading, Request, signatures_of_file, wrong_frames


@pytest.fixture
def clip(tmp_path: Path) -> str:
    return str(ClipMaker(tmp_path)("clip.mp4", frames=40, fps=4, size=(161, 91), pixels="yuv444p"))


def test_a_repeated_clip_has_its_frames_over_and_over(clip: str, tmp_path: Path) -> None:
    path = str(tmp_path / "long.mp4")
    repeat_clip(clip, path, 25)
    with av.open(path) as container:
        stream = container.streams.video[0]
        times = sorted(
            packet.pts * stream.time_base for packet in container.demux(stream) if packet.size
        )
    assert 95 <= len(times) <= 100
    assert times == [Fraction(k, 4) for k in range(len(times))]
    found, once = signatures_of_file(path), signatures_of_file(clip)
    assert [bytes(row) for row in found] == [bytes(once[k % 40]) for k in range(len(times))]


@pytest.mark.parametrize("name", ["vidcap", "PyAV, everything"])
def test_readers_give_what_they_say_and_a_shift_is_seen(clip: str, name: str) -> None:
    read = READERS[name].read(Request(clip, 10, 91, 161, threads=1, rate=4.0))
    truth = signatures_of_file(clip)
    assert read.rgb.shape == (10, 91, 161, 3)
    assert wrong_frames(read, truth) == 0
    assert wrong_frames(replace(read, indices=[index + 1 for index in read.indices]), truth) == 10
    assert wrong_frames(replace(read, indices=[index + 40 for index in read.indices]), truth) == 0


def test_the_table_has_a_row_for_every_reader(clip: str, capsys: pytest.CaptureFixture) -> None:
    main([clip, "--length", "10 s", "--reader", "vidcap", "--repeat", "1", "--threads", "1"])
    heading, columns, row = capsys.readouterr().out.splitlines()
    assert heading == "64 frames of 644x364, 1 threads"
    assert columns.split()[:3] == ["file", "reader", "seconds"]
    words = row.split()
    assert words[:3] == ["10", "s", "vidcap"]
    assert float(words[3]) > 0
    assert words[-1] == "0"


def test_a_reader_that_is_missing_or_fails_is_a_row_as_well(
    clip: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(request: Request) -> Reading:
        raise ValueError("no such frame")

    missing = Reader(fail, "no_such_package_anywhere")
    monkeypatch.setitem(reading.READERS, "missing", missing)
    monkeypatch.setitem(reading.READERS, "failing", Reader(fail))
    one = ["--truth", "none.npy", "--warm-up", clip, "--frames", "4", "--one"]
    main([clip, *one, "missing"])
    assert capsys.readouterr().out == '{"error": "not installed"}'
    main([clip, *one, "failing"])
    assert capsys.readouterr().out == '{"error": "ValueError: no such frame"}'
