"""The frames of videos as the models want them: decoded ahead in a thread, or window by window."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from vidcap.settings import VideoSettings
from vidcap.trace import Trace
from vidcap.video import Frames, FrameSize, Window, check_video, load_frames, load_windows
from vidcap.video.background import Background
from vidcap.video.isolation import Isolation

Decoded = tuple[Frames, float]

#: How often somebody who waits for a file to be opened looks whether it was.
_LOOK_UP_S = 0.02


class Footage:
    """Decodes videos, one at a time.

    Args:
        settings: which frames.
        frame_size: the size that the model wants.
        threads: decoding threads where no model runs.
        trace: gets an event for every decoded video, None where nobody asked.
        isolation: processes that decode, so that a crash costs one video; None decodes here.
    """

    def __init__(
        self,
        settings: VideoSettings,
        frame_size: FrameSize,
        threads: int,
        trace: Trace | None = None,
        isolation: Isolation | None = None,
    ):
        self._settings = settings
        self._frame_size = frame_size
        self._threads = threads
        self._trace = trace
        self._isolation = isolation
        self._opened: dict[str, threading.Event] = {}
        self._decoding: dict[str, Background[Decoded]] = {}
        self._latest: threading.Event | None = None

    def prefetch(self, path: str, threads: int | None = None) -> None:
        """Decode a video in a thread, once those before it are done.

        Args:
            path: the video; one that is decoded window by window is left alone.
            threads: decoding threads, None for all.
        """
        if self._settings.every_s is None and path not in self._decoding:
            self._decoding[path] = self._start(path, threads or self._threads)

    def check(self, path: str) -> None:
        """Finds out whether anything in a file can be decoded.

        Raises:
            InputError: the file cannot be used.
        """
        if self._isolation is None:
            check_video(path)
        elif path in self._decoding:
            decoding, opened = self._decoding[path], self._opened[path]
            while not (opened.is_set() or decoding.done.wait(_LOOK_UP_S)):
                pass
            if not opened.is_set():
                decoding.result()
        else:
            self._isolation.check_video(path)

    def take(self, path: str, meanwhile: Callable[[], object] = lambda: None) -> Decoded:
        """The frames of a video and the seconds that decoding took.

        Args:
            path: the video.
            meanwhile: done while a thread decodes.

        Raises:
            InputError: the file cannot be used.
        """
        decoding = self._decoding.pop(path, None) or self._start(path, self._threads)
        try:
            meanwhile()
            return decoding.result()
        finally:
            decoding.cancel()
            self._opened.pop(path, None)

    def windows(self, path: str) -> Iterator[Window]:
        """The windows of a video, or the video as a whole where no windows are asked for.

        Nothing is kept of a window that was handed out.

        Raises:
            InputError: the file cannot be used.
        """
        if self._settings.every_s is None:
            yield self._whole(path)
            return
        load = self._isolation.load_windows if self._isolation else load_windows
        windows = load(path, self._settings, self._frame_size, threads=self._threads)
        while True:
            begin = time.perf_counter()
            window = next(windows, None)
            if window is None:
                return
            if self._trace is not None:
                self._trace.add("decode video", begin, time.perf_counter(), file=path)
            yield window
            # Or it would stay alive while the next one is decoded.
            del window

    def decode(self, path: str) -> Frames:
        """The frames of a video, decoded here and now.

        Raises:
            InputError: the file cannot be used.
        """
        return self._decode(path, self._threads, lambda: False)[0]

    def _whole(self, path: str) -> Window:
        begin = time.perf_counter()
        frames, decode_s = self.take(path)
        waited_s = time.perf_counter() - begin
        return Window(self._settings.start_s, frames.decoded_s, frames, decode_s, waited_s)

    def _start(self, path: str, threads: int) -> Background[Decoded]:
        opened = self._opened[path] = threading.Event()
        decoding = Background(
            lambda stop: self._decode(path, threads, stop, opened), after=self._latest
        )
        self._latest = decoding.done
        return decoding

    def _decode(
        self,
        path: str,
        threads: int,
        should_stop: Callable[[], bool],
        opened: threading.Event | None = None,
    ) -> Decoded:
        def frame_size(count: int, height: int, width: int) -> tuple[int, int]:
            # Asked once the first frame is there.
            if opened is not None:
                opened.set()
            return self._frame_size(count, height, width)

        begin = time.perf_counter()
        load = self._isolation.load_frames if self._isolation else load_frames
        frames = load(path, self._settings, frame_size, threads=threads, should_stop=should_stop)
        end = time.perf_counter()
        if self._trace is not None:
            self._trace.add("decode video", begin, end, file=path)
        return frames, end - begin
