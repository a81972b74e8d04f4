"""Truncated and overwritten files: what decodes is used, what does not is said, nothing crashes."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.video.clips import ClipMaker, Decoded, read_all, same_size
from vidcap.errors import InputError
from vidcap.settings import VideoSettings
from vidcap.video import Frames, load_frames, probe

SETTINGS = VideoSettings(fps=10)


def load(path: Path, settings: VideoSettings = SETTINGS) -> Frames | str:
    """The frames, or the message of the only error there may be."""
    try:
        frames = load_frames(path, settings, same_size, threads=2)
    except InputError as error:
        return error.message
    assert len(frames.rgb) == len(frames.times_s) > 0
    assert np.all(np.diff(frames.times_s) > 0)
    return frames


def clip_in(make_clip: ClipMaker, name: str) -> Path:
    """Six seconds; MP4 with its index in front, so that a cut leaves it readable."""
    options = {"movflags": "faststart"} if name.endswith("mp4") else {}
    codec = "mpeg4" if name.endswith("avi") else "libx264"
    path = make_clip(name, codec, frames=120, fps=20, size=(64, 48), **options)
    return move_index_to_front(path) if name.endswith("mp4") else path


def move_index_to_front(path: Path) -> Path:
    """Does what the muxer's `faststart` does, which PyAV cannot be asked for per container."""
    content = path.read_bytes()
    boxes, place = {}, 0
    while place < len(content):
        size, kind = struct.unpack(">I4s", content[place : place + 8])
        boxes[kind] = content[place : place + size]
        place += size
    moov = bytearray(boxes[b"moov"])
    table = moov.index(b"stco")
    count = struct.unpack(">I", moov[table + 8 : table + 12])[0]
    for index in range(count):
        spot = table + 12 + 4 * index
        offset = struct.unpack(">I", moov[spot : spot + 4])[0]
        moov[spot : spot + 4] = struct.pack(">I", offset + len(moov))
    others = b"".join(box for kind, box in boxes.items() if kind not in (b"ftyp", b"moov"))
    path.write_bytes(boxes[b"ftyp"] + bytes(moov) + others)
    return path


def assert_genuine(frames: Frames, whole: Decoded) -> None:
    """Every frame but the last, which may lie at the cut, is one of the undamaged file."""
    times = [float(time) for time in whole.times]
    for time, picture in list(zip(frames.times_s, frames.rgb, strict=True))[:-1]:
        index = int(np.argmin(np.abs(np.array(times) - time)))
        assert times[index] == pytest.approx(time, abs=1e-3)
        assert np.array_equal(picture, whole.pictures[index])


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts", "a.avi"])
def test_truncated_at_twenty_points(make_clip: ClipMaker, name: str) -> None:
    path = clip_in(make_clip, name)
    whole, content = read_all(path), path.read_bytes()
    assert len(load(path).rgb) == 60  # type: ignore[union-attr]
    lengths = []
    for part in range(1, 20):
        path.write_bytes(content[: len(content) * part // 20])
        result = load(path)
        if isinstance(result, str):
            lengths.append(0.0)
            continue
        assert_genuine(result, whole)
        lengths.append(result.decoded_s)
        if result.info.duration_s == pytest.approx(6.0, abs=0.1):
            assert result.decoded_s < 6
            assert f"decoded {result.decoded_s:.1f} s of 6.0 s" in result.warnings
    assert lengths == sorted(lengths)
    assert lengths[9] == pytest.approx(3.0, abs=1.2)


def test_index_at_the_end_is_missing(make_clip: ClipMaker) -> None:
    path = make_clip("a.mp4", frames=60)
    content = path.read_bytes()
    for part in range(1, 20):
        path.write_bytes(content[: len(content) * part // 20])
        assert load(path) == "truncated or not a video"


def test_far_apart_samples_of_a_truncated_file(make_clip: ClipMaker, jumps: list[int]) -> None:
    path = move_index_to_front(make_clip("a.mp4", frames=800, fps=20, size=(64, 48), gop=20))
    whole, content = read_all(path), path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    result = load(path, VideoSettings(fps=0.2))
    assert isinstance(result, Frames)
    assert_genuine(result, whole)
    assert 3 <= len(result.rgb) <= 5
    assert any(warning.startswith("decoded ") for warning in result.warnings)
    assert jumps
    late = load(path, VideoSettings(start_s=35))
    assert late == "no frame could be decoded between 35.0 s and 40.0 s (truncated or damaged)"


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts", "a.avi"])
@pytest.mark.parametrize("junk", [b"\x00", b"\xff", b"\x5a"])
def test_overwritten_at_twenty_places(make_clip: ClipMaker, name: str, junk: bytes) -> None:
    path = clip_in(make_clip, name)
    content = path.read_bytes()
    usable = 0
    for part in range(20):
        damaged = bytearray(content)
        place = len(content) * part // 20
        damaged[place : place + 40] = junk * len(damaged[place : place + 40])
        path.write_bytes(damaged)
        for settings in (SETTINGS, VideoSettings(fps=0.3)):
            usable += isinstance(load(path, settings), Frames)
    assert usable >= 28


def test_damaged_frames_are_counted_and_left_out(make_clip: ClipMaker) -> None:
    path = make_clip("a.avi", "mjpeg", frames=20, pixels="yuvj420p", fps=10)
    whole, content = read_all(path), bytearray(path.read_bytes())
    starts = [
        place for place in range(len(content)) if content[place : place + 3] == b"\xff\xd8\xff"
    ]
    assert len(starts) == 20
    for number in (7, 8):
        content[starts[number] : starts[number] + 700] = bytes(700)
    path.write_bytes(content)
    result = load(path)
    assert isinstance(result, Frames)
    assert result.corrupt_frames == 2
    assert "left out 2 damaged frames" in result.warnings
    kept = [index for index in range(20) if index not in (7, 8)]
    assert result.times_s == pytest.approx([index / 10 for index in kept])
    assert np.array_equal(result.rgb, [whole.pictures[index] for index in kept])


def test_nothing_decodes(make_clip: ClipMaker) -> None:
    path = clip_in(make_clip, "a.mp4")
    content = path.read_bytes()
    data = content.index(b"mdat") + 4
    path.write_bytes(content[:data] + bytes(len(content) - data))
    assert load(path) == "no frame could be decoded (truncated or damaged)"
    with pytest.raises(InputError, match="no frame could be decoded"):
        probe(path)


def test_absurd_duration_in_the_header_is_checked_against_the_packets(
    make_clip: ClipMaker,
) -> None:
    path = make_clip("a.flv", "flv", frames=60, fps=20)
    content = path.read_bytes()
    place = content.index(b"duration") + len(b"duration") + 1
    assert struct.unpack(">d", content[place : place + 8])[0] == pytest.approx(3.0, abs=0.1)
    path.write_bytes(content[:place] + struct.pack(">d", 1e9) + content[place + 8 :])
    assert probe(path).duration_s == pytest.approx(3.0, abs=0.1)
    result = load(path, VideoSettings(fps=2))
    assert isinstance(result, Frames)
    assert len(result.rgb) == 6


def test_header_claims_more_than_there_is(make_clip: ClipMaker) -> None:
    path = make_clip("a.flv", "flv", frames=60, fps=20)
    content = path.read_bytes()
    place = content.index(b"duration") + len(b"duration") + 1
    path.write_bytes(content[:place] + struct.pack(">d", 9.0) + content[place + 8 :])
    result = load(path, VideoSettings(fps=2))
    assert isinstance(result, Frames)
    assert result.times_s == pytest.approx([0, 0.5, 1, 1.5, 2, 2.5, 2.95], abs=0.03)
    assert result.warnings == ("decoded 3.0 s of 9.0 s",)
    assert result.decoded_s == pytest.approx(3.0, abs=0.05)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.avi", "a.ts", "a.gif"])
def test_mutated_headers_never_crash(make_clip: ClipMaker, name: str) -> None:
    if name.endswith("gif"):
        path = make_clip(name, "gif", frames=30, pixels="rgb8", size=(64, 48))
    else:
        path = clip_in(make_clip, name)
    content = path.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(40):
        damaged = np.frombuffer(content, np.uint8).copy()
        reach = min(len(damaged), int(rng.choice([64, 500, 4000])))
        places = rng.integers(0, reach, rng.integers(1, 8))
        damaged[places] = rng.integers(0, 256, len(places))
        path.write_bytes(damaged.tobytes())
        load(path, VideoSettings(fps=4, max_frames=16))


def test_ffmpegs_log_is_silent_until_it_is_asked_for(make_clip: ClipMaker) -> None:
    path = clip_in(make_clip, "a.mp4")
    content = bytearray(path.read_bytes())
    middle = 2 * len(content) // 3
    content[middle : middle + 300] = bytes(300)
    path.write_bytes(content)
    script = (
        "import sys, numpy as np\n"
        "from vidcap.settings import VideoSettings\n"
        "from vidcap.video import load_frames, show_decoder_log\n"
        "if sys.argv[2:]: show_decoder_log()\n"
        "try: load_frames(sys.argv[1], VideoSettings(), lambda n, h, w: (h, w))\n"
        "except Exception: pass\n"
    )
    silent, verbose = (
        subprocess.run(
            [sys.executable, "-c", script, str(path), *more],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        )
        for more in ([], ["-v"])
    )
    assert silent.stderr == b""
    assert verbose.stderr != b""
