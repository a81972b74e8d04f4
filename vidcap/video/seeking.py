"""Frames with their times, and jumps to key frames where they are safe and save decoding.

A jump is made only in formats whose index is known to be exact (MP4 and Matroska families), only
while the time stamps are regular, and only to a key frame that lies before the wanted time by more
than pictures are usually reordered. After it, everything before the key frame's own picture is
dropped (pictures that follow it in the file and precede it on the screen miss their references),
and where that picture turns out to lie behind the wanted time the jump has failed: the caller tries
again with a larger reserve, and decodes from the start where that fails too. So a sampled frame is
the one that decoding from the start gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import av
import av.error

from vidcap.video.clock import Clock
from vidcap.video.reader import MAX_THREADS, FrameReader
from vidcap.video.shortcuts import RESERVES, SeekMissedError, Shortcuts, SkipMissedError
from vidcap.video.skipping import Skipper, can_skip
from vidcap.video.source import VideoSource

_SEEKABLE = frozenset({"mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm"})

#: A jump saves something if it leaves out more frames than the decoder then has in flight.
_WORTHWHILE_FRAMES = RESERVES[-1] + MAX_THREADS


class TimedFrames:
    """The frames of a source in order, each with its time.

    Args:
        source, reader, clock: the open file, its frames, and what gives them their times.
        first: the frame that was already taken from the reader.
        shortcuts: what may be left out in between.

    Attributes:
        shown_until: the time at which the latest frame gives way to the next one.
    """

    def __init__(
        self,
        source: VideoSource,
        reader: FrameReader,
        clock: Clock,
        first: av.VideoFrame,
        *,
        shortcuts: Shortcuts,
    ):
        self._source = source
        self._reader = reader
        self._clock = clock
        self._first: av.VideoFrame | None = first
        self._landing: Fraction | None = None
        self._delivered = Fraction(-1)
        self.shown_until = Fraction(0)
        self._reserve_frames = shortcuts.reserve_frames or 0
        self._may_jump = (
            shortcuts.reserve_frames is not None and source.container.format.name in _SEEKABLE
        )
        # Matroska's index lies at the end of the file and is read by the first jump.
        self._index_is_loaded = source.container.format.name != "matroska,webm"
        self._blind = not self._index_is_loaded
        self._skipper: Skipper | None = None
        if shortcuts.skips and can_skip(source):
            self._skipper = Skipper(source, clock)
            reader.may_skip = self._skipper.may_skip

    def __iter__(self) -> Iterator[tuple[Fraction, av.VideoFrame]]:
        return self

    def __next__(self) -> tuple[Fraction, av.VideoFrame]:
        while True:
            frame = self._first or next(self._reader)
            self._first = None
            time = self._clock.time(frame)
            if self._has_landed(time, frame) and time > self._delivered:
                self._delivered = time
                self.shown_until = self._clock.end_of(frame)
                return time, frame

    def want(self, times: Sequence[Fraction]) -> None:
        """Says what is wanted next, increasing; in between frames may be left out."""
        if self._skipper is not None:
            self._skipper.want(times)

    def check(self, distance: Fraction) -> None:
        """Makes sure that a frame so far from a wanted time is the nearest to it.

        Raises:
            SkipMissedError: a nearer one may have been left out.
        """
        skipper = self._skipper
        if skipper is None or not skipper.used:
            return
        if distance > skipper.near or not self._clock.regular:
            raise SkipMissedError

    def approach(self, target: Fraction) -> None:
        """Jumps towards `target` if that leaves out many frames.

        Raises:
            SeekMissedError: the file does not allow the jump.
        """
        if not self._may_jump or not self._pays(target):
            return
        if not self._clock.regular:
            self._may_jump = False
            return
        reserve = self._reserve_frames * self._clock.frame_period
        # MP4's index holds decoding times, up to a reserve earlier than what is shown.
        if not self._index_is_loaded or self._pays(self._key_frame_before(target - 2 * reserve)):
            self._jump(self._clock.stamp(target - reserve), target)

    def _pays(self, time: Fraction | None) -> bool:
        """Whether going on at `time` leaves out more than a jump costs."""
        ahead = _WORTHWHILE_FRAMES * self._clock.frame_period
        return time is not None and time - self._clock.now > ahead

    def _has_landed(self, time: Fraction, frame: av.VideoFrame) -> bool:
        """Whether this frame can be relied on: no jump is open, or its key frame is reached."""
        if self._landing is None:
            return True
        if time > self._landing or not self._clock.regular:
            raise SeekMissedError
        if not frame.key_frame:
            return False
        self._landing = None
        if time <= self._delivered:
            # Nothing was left out. That may happen once, before the index is known.
            self._may_jump = self._may_jump and self._blind
        self._blind = False
        return True

    def _key_frame_before(self, time: Fraction) -> Fraction | None:
        """Time of the last key frame at or before `time`, by the file's index."""
        index = self._source.stream.index_entries
        place = index.search_timestamp(self._clock.stamp(time))
        return self._clock.seconds(index[place].timestamp) if place >= 0 else None

    def _jump(self, stamp: int, target: Fraction) -> None:
        try:
            self._reader.seek(stamp)
        except av.error.FFmpegError as error:
            raise SeekMissedError from error
        self._index_is_loaded = True
        self._landing = target
        self._clock.resume_after_seek()
