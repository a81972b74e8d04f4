"""Decoding in a process of its own, so that a crash of a native decoder costs one video.

The process lives as long as there are videos to decode and is replaced when it dies. It imports
PyAV and numpy, no torch. Frames come back through a pipe, straight from one array into another.

What it costs, measured on 2 cores that were shared: 0.2 s of CPU time and 51 MB of resident memory
once; for 64 frames of 644x364 pixels (45 MB, more than usual) 0.1 s of CPU time for each video, and
their array exists twice until it has arrived. That is little beside the models, so runs over
several videos use it. A run on one video does not: there is nothing that a crash could take along.
"""

from __future__ import annotations

import enum
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vidcap.errors import InputError, VidcapError
from vidcap.settings import VideoSettings
from vidcap.video.channel import Channel
from vidcap.video.info import DecodingInterruptedError, Frames, FrameSize
from vidcap.video.windows import Window

#: A process that does not end by itself within this many seconds is killed.
_PATIENCE_S = 2.0


class Answer(enum.Enum):
    """What the process says."""

    SIZE_WANTED = enum.auto()
    THING = enum.auto()
    ERROR = enum.auto()
    END = enum.auto()


@dataclass(frozen=True, slots=True)
class Task:
    """What the process is asked to do: sample a video, as a whole or in windows.

    Without settings it only checks that something can be decoded.
    """

    path: str
    settings: VideoSettings | None = None
    windows: bool = False
    threads: int = 1


class DecodingProcess:
    """A process that does one task at a time."""

    def __init__(self) -> None:
        home = str(Path(__file__).parents[2])
        search = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
        # -P: the folder that the user happens to be in is not searched for modules.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "vidcap.video.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": search},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._channel = Channel(self._process.stdout.fileno(), self._process.stdin.fileno())

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can be given tasks."""
        return self._process.poll() is None

    def do(
        self,
        task: Task,
        frame_size: FrameSize | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Iterator[Any]:
        """What the task gives, one thing after the other; nothing is kept of them here.

        Raises:
            InputError: the file cannot be used, or the process crashed over it.
            DecodingInterruptedError: `should_stop` returned True; the process was ended.
        """

        def look_up() -> None:
            if should_stop is not None and should_stop():
                raise DecodingInterruptedError

        finished = False
        try:
            self._channel.send(task)
            while True:
                message = list(self._channel.receive(look_up))
                match message[0]:
                    case Answer.SIZE_WANTED:
                        self._channel.send(_asked_size(frame_size, message[1]))
                    case Answer.THING:
                        yield message.pop()
                        self._channel.send(True)
                    case _:
                        finished = True
                        break
        except (EOFError, BrokenPipeError) as error:
            raise InputError(self._last_words()) from error
        finally:
            if not finished:
                self.kill()
        if message[0] is Answer.ERROR:
            raise message[1]

    def close(self) -> None:
        """Ends it gently."""
        self._close_pipes()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends it at once, whatever it does."""
        self._process.kill()
        self._close_pipes()
        self._process.wait()

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _last_words(self) -> str:
        code = self._process.wait()
        if code >= 0:
            return f"the decoder ended unexpectedly over this file (exit code {code})"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"the decoder crashed over this file ({name})"


def _asked_size(
    frame_size: FrameSize | None, asked: tuple[int, int, int]
) -> tuple[int, int] | VidcapError:
    """The size, or the error to be raised where it was asked for."""
    if frame_size is None:
        return asked[1:]
    try:
        return frame_size(*asked)
    except VidcapError as error:
        return error


class Isolation:
    """What ``load_frames``, ``load_windows`` and ``check_video`` do, in processes of their own.

    One process serves them in turn; a second one is started only where two run at once.
    """

    def __init__(self) -> None:
        self._idle: list[DecodingProcess] = []
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, _close_all, self._idle)

    @staticmethod
    def is_possible() -> bool:
        """Whether this system has what it takes."""
        return os.name == "posix"

    def load_frames(
        self,
        path: str,
        settings: VideoSettings,
        frame_size: FrameSize,
        *,
        threads: int = 1,
        should_stop: Callable[[], bool] | None = None,
    ) -> Frames:
        """See :func:`vidcap.video.load_frames`."""
        task = Task(path, settings, threads=threads)
        (frames,) = self._do(task, frame_size, should_stop)
        return frames

    def load_windows(
        self, path: str, settings: VideoSettings, frame_size: FrameSize, *, threads: int = 1
    ) -> Iterator[Window]:
        """See :func:`vidcap.video.load_windows`."""
        return self._do(Task(path, settings, windows=True, threads=threads), frame_size)

    def check_video(self, path: str) -> None:
        """See :func:`vidcap.video.check_video`."""
        for _ in self._do(Task(path)):
            pass

    def close(self) -> None:
        """Ends the processes that are idle."""
        with self._lock:
            _close_all(self._idle)

    def _do(
        self,
        task: Task,
        frame_size: FrameSize | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Iterator[Any]:
        process = self._borrow()
        try:
            yield from process.do(task, frame_size, should_stop)
        finally:
            self._give_back(process)

    def _borrow(self) -> DecodingProcess:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.is_alive:
                    return process
                process.close()
        return DecodingProcess()

    def _give_back(self, process: DecodingProcess) -> None:
        with self._lock:
            if process.is_alive and not self._idle and self._end.alive:
                self._idle.append(process)
                return
        process.close()


def _close_all(processes: list[DecodingProcess]) -> None:
    while processes:
        processes.pop().close()
