"""Decoded frames of an open file, one after the other, whatever is wrong with some of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import av
import av.error

from vidcap.errors import InputError
from vidcap.video.info import DecodingInterruptedError
from vidcap.video.source import MAX_FRAME_PIXELS, VideoSource

#: More decoding threads than this gain nothing and each holds a frame.
MAX_THREADS = 16

#: After so many packets in a row that do not decode, the rest of the file is given up.
_MAX_DAMAGED_RUN = 500


class FrameReader:
    """Reads a stream forward, with jumps to key frames where the caller asks for them.

    Args:
        source: the open file.
        threads: decoding threads. They work on whole frames: slices do not pay on usual files.
        should_stop: asked before each packet.

    Attributes:
        corrupt: damaged frames and packets that were left out so far.
        may_skip: asked with the time stamp of each packet; where it says so, the frame is left out
            if no other frame refers to it.
    """

    def __init__(
        self,
        source: VideoSource,
        *,
        threads: int = 1,
        should_stop: Callable[[], bool] | None = None,
    ):
        self._source = source
        self._should_stop = should_stop
        self._frames = self._read()
        self.corrupt = 0
        self.may_skip: Callable[[int | None], bool] | None = None
        self._skips = False
        context = source.stream.codec_context
        context.thread_count = max(1, min(threads, MAX_THREADS))
        context.thread_type = "FRAME" if context.thread_count > 1 else "NONE"

    def __iter__(self) -> Iterator[av.VideoFrame]:
        return self

    def __next__(self) -> av.VideoFrame:
        return next(self._frames)

    def seek(self, stamp: int) -> None:
        """Goes on at the last key frame at or before a time stamp in the stream's time base.

        Raises:
            av.error.FFmpegError: the file does not allow it.
        """
        self._frames.close()
        self._source.container.seek(stamp, stream=self._source.stream)
        self._frames = self._read()

    def _read(self) -> Generator[av.VideoFrame, None, None]:
        damaged_run = 0
        for packet in self._packets():
            if self._should_stop is not None and self._should_stop():
                raise DecodingInterruptedError
            if self.may_skip is not None:
                self._skip(self.may_skip(packet.pts))
            try:
                decoded = packet.decode()
            except av.error.FFmpegError:
                self.corrupt += 1
                damaged_run += 1
                if damaged_run == _MAX_DAMAGED_RUN:
                    return
                continue
            for frame in decoded:
                damaged_run = 0
                if frame.is_corrupt:
                    self.corrupt += 1
                    continue
                if frame.width * frame.height > MAX_FRAME_PIXELS:
                    raise InputError(f"frames of {frame.width}x{frame.height} pixels are too large")
                yield frame

    def _skip(self, wanted: bool) -> None:
        if wanted != self._skips:
            self._skips = wanted
            self._source.stream.codec_context.skip_frame = "NONREF" if wanted else "DEFAULT"

    def _packets(self) -> Iterator[av.Packet]:
        try:
            yield from self._source.container.demux(self._source.stream)
        except av.error.FFmpegError:
            # The file ends in damage; the frames still inside the decoder are lost with it.
            self.corrupt += 1
