"""Damaged files of many formats through ``vidcap plan``: an answer or one line each, in bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from tests.video.clips import ClipMaker, same_size
from vidcap.errors import InputError
from vidcap.settings import VideoSettings
from vidcap.video.isolation import Isolation

FORMATS = [
    ("a.mp4", "libx264", "yuv420p"),
    ("a.mkv", "libx265", "yuv420p"),
    ("a.webm", "libvpx-vp9", "yuv420p"),
    ("a.ts", "mpeg2video", "yuv420p"),
    ("a.avi", "mjpeg", "yuvj420p"),
    ("a.mov", "prores_ks", "yuv422p10le"),
    ("a.flv", "flv", "yuv420p"),
    ("a.wmv", "wmv2", "yuv420p"),
    ("a.gif", "gif", "rgb8"),
    ("b.mp4", "libsvtav1", "yuv420p"),
]

#: Files of each format.
COUNT = 6

PLAN = """
import atexit, sys
from vidcap.bench.reading import peak_bytes
from vidcap.cli import main
atexit.register(lambda: print("peak", peak_bytes(), file=sys.stderr))
sys.argv[0] = "vidcap"
main()
"""


def mutations(content: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """Bytes changed, overwritten, cut off, left out and doubled, in the header or anywhere."""
    while True:
        data = np.frombuffer(content, np.uint8).copy()
        reach = min(len(data), int(rng.choice([64, 500, 4000, len(data)])))
        start, length = int(rng.integers(reach)), int(rng.integers(1, 100))
        match rng.integers(5):
            case 0:
                places = rng.integers(0, reach, rng.integers(1, 12))
                data[places] = rng.integers(0, 256, len(places))
            case 1:
                data[start : start + length] = rng.choice([0, 127, 128, 255])
            case 2:
                data = data[: start + 1]
            case 3:
                data = np.delete(data, slice(start, start + length))
            case _:
                data = np.insert(data, start, data[start : start + length])
        yield data.tobytes()


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Damaged files of all formats."""
    folder = tmp_path_factory.mktemp("fuzz")
    make, rng, paths = ClipMaker(folder), np.random.default_rng(5), []
    for name, codec, pixels in FORMATS:
        whole = make(name, codec, frames=20, fps=20, pixels=pixels, size=(64, 48))
        several = zip(range(COUNT), mutations(whole.read_bytes(), rng), strict=False)
        for number, content in several:
            path = folder / f"{number}-{name}"
            path.write_bytes(content)
            paths.append(str(path))
    return paths


def test_plan_answers_for_every_file(damaged: list[str]) -> None:
    command = [sys.executable, "-c", PLAN, "plan", "--pair", "demo", "--format", "json", *damaged]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    answers = json.loads(done.stdout)["videos"]
    assert [answer["path"] for answer in answers] == damaged
    usable = [answer for answer in answers if answer["status"] == "ok"]
    assert 15 < len(usable) < len(damaged)
    for answer in answers:
        assert answer["status"] == "ok" or "internal" not in answer["error"]["message"]
    *errors, peak = done.stderr.splitlines()
    assert "Traceback" not in done.stderr
    assert all(line.startswith(("vidcap: ", "hint: ")) for line in errors)
    assert int(peak.removeprefix("peak ")) < 300_000_000


def test_decoding_them_in_another_process_gives_frames_or_an_input_error(
    damaged: list[str],
) -> None:
    isolation = Isolation()
    usable, messages = 0, []
    for path in damaged:
        try:
            frames = isolation.load_frames(path, VideoSettings(fps=4), same_size, threads=2)
        except InputError as error:
            messages.append(error.message)
            continue
        usable += 1
        assert np.all(np.diff(frames.times_s) > 0)
        assert len(frames.rgb) == len(frames.times_s) > 0
    isolation.close()
    assert usable > 15
    assert not [message for message in messages if "crashed" in message or "\n" in message]
