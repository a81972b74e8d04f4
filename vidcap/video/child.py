"""The process that decodes for another one; see :mod:`vidcap.video.isolation`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

from vidcap.errors import VidcapError
from vidcap.video.channel import Channel
from vidcap.video.decode import load_frames
from vidcap.video.info import DecodingInterruptedError
from vidcap.video.isolation import Answer, Task
from vidcap.video.probe import check_video
from vidcap.video.windows import load_windows

_STDIN, _STDOUT, _STDERR = 0, 1, 2


def main() -> None:
    """Serves tasks from standard input until it is closed."""
    # Ctrl-C reaches the whole process group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.dup(_STDOUT)
    # Nothing that a library prints may get between the answers.
    os.dup2(_STDERR, _STDOUT)
    channel = Channel(_STDIN, answers)
    try:
        while True:
            _serve(channel, channel.receive())
    except (EOFError, BrokenPipeError, DecodingInterruptedError):
        # Nobody is there to take the rest.
        return


def _serve(channel: Channel, task: Task) -> None:
    """Sends what a task gives, each thing once the one before was taken."""
    try:
        for thing in _results(channel, task):
            channel.send((Answer.THING, thing))
            del thing
            if not channel.receive():
                break
    except VidcapError as error:
        channel.send((Answer.ERROR, error))
        return
    channel.send((Answer.END, None))


def _results(channel: Channel, task: Task) -> Iterator[Any]:
    def frame_size(count: int, height: int, width: int) -> tuple[int, int]:
        channel.send((Answer.SIZE_WANTED, (count, height, width)))
        size = channel.receive()
        if isinstance(size, VidcapError):
            raise size
        return size

    path, settings, threads = task.path, task.settings, task.threads
    stop = channel.is_closed
    if settings is None:
        check_video(path)
    elif task.windows:
        yield from load_windows(path, settings, frame_size, threads=threads, should_stop=stop)
    else:
        yield load_frames(path, settings, frame_size, threads=threads, should_stop=stop)


if __name__ == "__main__":
    main()
