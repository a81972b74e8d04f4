"""The frames of videos as the models want them: decoded ahead in a thread, or window by window."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from vidcap.settings import VideoSettings
from vidcap.video import Frames, FrameSize, Window, load_frames, load_windows
from vidcap.video.background import Background

Decoded = tuple[Frames, float]


class Footage:
    """Decodes videos, one at a time.

    Args:
        settings: which frames.
        frame_size: the size that the model wants.
        threads: decoding threads where no model runs.
    """

    def __init__(self, settings: VideoSettings, frame_size: FrameSize, threads: int):
        self._settings = settings
        self._frame_size = frame_size
        self._threads = threads
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

    def windows(self, path: str) -> Iterator[Window]:
        """The windows of a video, or the video as a whole where no windows are asked for.

        Nothing is kept of a window that was handed out.

        Raises:
            InputError: the file cannot be used.
        """
        if self._settings.every_s is None:
            yield self._whole(path)
        else:
            yield from load_windows(path, self._settings, self._frame_size, threads=self._threads)

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
        decoding = Background(lambda stop: self._decode(path, threads, stop), after=self._latest)
        self._latest = decoding.done
        return decoding

    def _decode(self, path: str, threads: int, should_stop: Callable[[], bool]) -> Decoded:
        begin = time.perf_counter()
        frames = load_frames(
            path, self._settings, self._frame_size, threads=threads, should_stop=should_stop
        )
        return frames, time.perf_counter() - begin
