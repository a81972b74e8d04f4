"""Decoding in a process of its own: the same results, and a crash costs one video."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.video.clips import ClipMaker, same_size
from vidcap.errors import InputError
from vidcap.footage import Footage
from vidcap.settings import VideoSettings
from vidcap.video import DecodingInterruptedError, load_frames, load_windows
from vidcap.video.isolation import DecodingProcess, Isolation, Task

SETTINGS = VideoSettings(fps=4)


@pytest.fixture
def isolation() -> Iterator[Isolation]:
    made = Isolation()
    yield made
    made.close()


def ended(pid: int, within_s: float = 10.0) -> bool:
    """Whether a process is gone."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def only(isolation: Isolation) -> DecodingProcess:
    """The one process that waits for work."""
    (process,) = isolation._idle
    return process


def test_frames_are_the_same_as_without_and_one_process_serves_many(
    make_clip: ClipMaker, isolation: Isolation
) -> None:
    pids = set()
    for name in ("a.mp4", "b.mkv"):
        path = str(make_clip(name, frames=60))
        here = load_frames(path, SETTINGS, same_size)
        there = isolation.load_frames(path, SETTINGS, same_size, threads=2)
        assert np.array_equal(here.rgb, there.rgb)
        assert np.array_equal(here.times_s, there.times_s)
        assert replace(here, rgb=0, times_s=0) == replace(there, rgb=0, times_s=0)  # type: ignore[arg-type]
        assert there.rgb.flags.writeable
        pids.add(only(isolation).pid)
    assert len(pids) == 1
    assert os.getpid() not in pids


def test_windows_come_one_by_one_and_are_not_kept(
    make_clip: ClipMaker, isolation: Isolation
) -> None:
    path, settings = str(make_clip("a.mp4", frames=90)), replace(SETTINGS, every_s=1.0)
    expected = [window.frames for window in load_windows(path, settings, same_size)]
    alive = []
    for window in isolation.load_windows(path, settings, same_size):
        wanted = expected[len(alive)]
        assert np.array_equal(window.frames.rgb, wanted.rgb)
        assert window.frames.times_s.tolist() == wanted.times_s.tolist()
        alive.append(weakref.ref(window.frames.rgb))
        del window
        assert alive[-1]() is None
    assert len(alive) == len(expected) == 3
    first = next(isolation.load_windows(path, settings, same_size))
    assert np.array_equal(first.frames.rgb, expected[0].rgb)


def test_errors_of_the_file_and_of_the_model_arrive_as_they_are(
    make_clip: ClipMaker, isolation: Isolation, tmp_path
) -> None:
    def refuse(count: int, height: int, width: int) -> tuple[int, int]:
        raise InputError("too narrow", hint="try another")

    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"\0" * 5000)
    good = str(make_clip("a.mp4", frames=20))
    for _ in range(2):
        with pytest.raises(InputError, match=r"^truncated or not a video$"):
            isolation.load_frames(str(broken), SETTINGS, same_size)
        with pytest.raises(InputError, match=r"^truncated or not a video$"):
            isolation.check_video(str(broken))
        with pytest.raises(InputError, match=r"^too narrow$") as narrow:
            isolation.load_frames(good, SETTINGS, refuse)
        assert narrow.value.hint == "try another"
        isolation.check_video(good)


def test_a_crash_is_an_error_of_one_video(make_clip: ClipMaker, isolation: Isolation) -> None:
    path = str(make_clip("a.mp4", frames=20))
    expected = isolation.load_frames(path, SETTINGS, same_size)
    victim = only(isolation).pid

    def crash(count: int, height: int, width: int) -> tuple[int, int]:
        os.kill(victim, signal.SIGSEGV)
        return height, width

    with pytest.raises(InputError, match=r"the decoder crashed over this file \(SIGSEGV\)"):
        isolation.load_frames(path, SETTINGS, crash)
    again = isolation.load_frames(path, SETTINGS, same_size)
    assert np.array_equal(again.rgb, expected.rgb)
    assert only(isolation).pid != victim


def test_a_process_that_died_while_idle_is_replaced(
    make_clip: ClipMaker, isolation: Isolation
) -> None:
    path = str(make_clip("a.mp4", frames=20))
    isolation.check_video(path)
    victim = only(isolation)
    os.kill(victim.pid, signal.SIGKILL)
    victim._process.wait()
    isolation.check_video(path)
    assert only(isolation).pid != victim.pid


def test_decoding_that_hangs_can_be_ended(make_clip: ClipMaker, isolation: Isolation) -> None:
    path = str(make_clip("a.mp4", frames=20))
    isolation.check_video(path)
    victim = only(isolation).pid

    def hang(count: int, height: int, width: int) -> tuple[int, int]:
        os.kill(victim, signal.SIGSTOP)
        return height, width

    with pytest.raises(DecodingInterruptedError):
        isolation.load_frames(path, SETTINGS, hang, should_stop=lambda: True)
    assert ended(victim)
    isolation.check_video(path)


def test_the_process_ends_with_its_owner(make_clip: ClipMaker) -> None:
    path = str(make_clip("a.mp4", frames=3))
    isolation = Isolation()
    isolation.check_video(path)
    pid = only(isolation).pid
    del isolation
    assert ended(pid)
    code = (
        "import os, sys; from vidcap.video.isolation import Isolation; i = Isolation();"
        "i.check_video(sys.argv[1]); print(i._idle[0].pid, flush=True); os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert ended(int(done.stdout))


def test_it_imports_neither_torch_nor_what_lies_in_the_folder(
    make_clip: ClipMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(make_clip("a.mp4", frames=3))
    (make_clip.folder / "numpy.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(make_clip.folder)
    process = DecodingProcess()
    try:
        assert list(process.do(Task(path))) == []
        assert process.is_alive
    finally:
        process.close()
    code = "import sys, vidcap.video.child; print({'torch', 'transformers'} & set(sys.modules))"
    command = [sys.executable, "-P", "-c", code]
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": home}
    )
    assert done.stdout == "set()\n"


def test_footage_of_a_batch_survives_a_crash_and_checks_what_is_being_decoded(
    make_clip: ClipMaker, isolation: Isolation
) -> None:
    paths = [str(make_clip(f"{number}.mp4", frames=20 + number)) for number in range(3)]
    broken = make_clip.folder / "broken.mp4"
    broken.write_bytes(b"\0" * 5000)
    isolation.check_video(paths[0])
    victim, asked = only(isolation).pid, []

    def crash_over_the_second(count: int, height: int, width: int) -> tuple[int, int]:
        asked.append(count)
        if len(asked) == 2:
            os.kill(victim, signal.SIGSEGV)
        return height, width

    footage = Footage(SETTINGS, crash_over_the_second, threads=1, isolation=isolation)
    for path in (*paths, str(broken)):
        footage.prefetch(path)
    footage.check(paths[0])
    with pytest.raises(InputError, match="truncated or not a video"):
        footage.check(str(broken))
    assert footage.take(paths[0])[0].info.path == paths[0]
    with pytest.raises(InputError, match="crashed"):
        footage.take(paths[1])
    assert footage.take(paths[2])[0].info.path == paths[2]
    footage.check(paths[1])
    with pytest.raises(InputError, match="truncated or not a video"):
        footage.check(str(broken))
