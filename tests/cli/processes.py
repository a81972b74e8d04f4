"""``vidcap`` with the fake captioner as a real process."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.cli.driver"]


def environment(**more: str) -> dict[str, str]:
    """The variables of this process without those of vidcap, and some more."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("VIDCAP_")}
    return inherited | more


def run(
    *words: str | Path, env: dict[str, str] | None = None, **how: Any
) -> subprocess.CompletedProcess[bytes]:
    """``vidcap`` with the fake captioner, from start to end."""
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        cwd=ROOT,
        env=environment(**(env or {})),
        timeout=60,
        **{"capture_output": True, **how},
    )


def numbered_videos(folder: Path, count: int) -> Path:
    """A new folder with ``0.mp4``, ``1.mp4`` ..., each of another size."""
    folder.mkdir()
    for number in range(count):
        (folder / f"{number}.mp4").write_bytes(b"x" * number)
    return folder


def events(log: Path, what: str) -> list[list[Any]]:
    """The calls of one kind in a FAKE_LOG: kind, name of the video, process."""
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    return [call for call in map(json.loads, lines) if call[0] == what]


def wait_for(log: Path, what: str, count: int, seconds: float = 30.0) -> list[list[Any]]:
    """Those calls, once there are so many."""
    deadline = time.monotonic() + seconds
    while len(found := events(log, what)) < count:
        assert time.monotonic() < deadline, f"only {found}"
        time.sleep(0.005)
    return found


def ones(count: int) -> str:
    """FAKE_WORDS for so many words."""
    return json.dumps(["one "] * count)


@contextmanager
def started(
    *words: str | Path, env: dict[str, str] | None = None, **how: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """``vidcap`` while it runs; killed at the end of the block."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    process = subprocess.Popen(
        [*COMMAND, *map(str, words)], cwd=ROOT, env=environment(**(env or {})), **pipes
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def read_until(process: subprocess.Popen, wanted: bytes, seconds: float = 30.0) -> bytes:
    """What stdout gives until ``wanted`` is among it."""
    seen = b""
    deadline = time.monotonic() + seconds
    while wanted not in seen:
        ready, _, _ = select.select([process.stdout], [], [], deadline - time.monotonic())
        assert ready, f"only {seen!r} came"
        piece = os.read(process.stdout.fileno(), 4096)
        assert piece, f"stdout ended after {seen!r}: {process.stderr.read()!r}"
        seen += piece
    return seen


def on_terminal(words: list[str], env: dict[str, str], code: int = 0) -> str:
    """What a terminal sees of a run whose stdin, stdout and stderr it is."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *words],
        cwd=ROOT,
        env=environment(TERM="xterm", **env),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    seen = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # the last writer has closed the terminal
            break
        if not piece:
            break
        seen += piece
    os.close(master)
    assert process.wait(timeout=30) == code
    return seen.decode()
