"""Time stamps of frames, as exact seconds from the first frame, never running backwards.

The time of a frame is its presentation time stamp (PTS), in the stream's time base. Files break
this in ways that have to be survived: no time stamps at all, stamps in decoding order, a jump back
where recordings were joined, one stamp in outer space. The order in which the decoder returns
frames is the order of display and is trusted more than a stamp.
"""

from __future__ import annotations

from fractions import Fraction

import av

#: A step back by more than this starts a new recording; a smaller one is a stamp out of order.
_MAX_DISORDER_S = Fraction(2)

#: A stamp so far behind the end that the header claims is damaged.
_PAST_THE_END_S = Fraction(10)

#: Frame rate that is assumed where a file has neither time stamps nor a frame rate.
_DEFAULT_FPS = Fraction(25)


class Clock:
    """Gives each frame, taken in the order of decoding, its time.

    Args:
        time_base: seconds per unit of the time stamps.
        frame_period: seconds per frame by the header, None if it claims none.
        stamps_are_dts: the container stores decoding times only (AVI), so those are used.
        end: duration by the header, so that absurd stamps are noticed.

    Attributes:
        frame_period: seconds per frame, assumed where none is claimed.
        regular: False once a stamp was missing, out of order or damaged. The time stamps in the
            file's index cannot be relied on then.
        now: time of the latest frame.
    """

    def __init__(
        self,
        time_base: Fraction,
        frame_period: Fraction | None,
        *,
        stamps_are_dts: bool = False,
        end: Fraction | None = None,
    ):
        self._time_base = time_base
        self.frame_period = frame_period or 1 / _DEFAULT_FPS
        self._stamps_are_dts = stamps_are_dts
        self._origin: Fraction | None = None
        self._started = False
        self._resumed = False
        self._end = end
        self.now = Fraction(0)
        self.regular = not stamps_are_dts

    def resume_after_seek(self) -> None:
        """The next frame may lie anywhere; only allowed while the clock is regular."""
        self._resumed = True

    def seconds(self, stamp: int) -> Fraction:
        """A time stamp of the file as seconds from the first frame."""
        return stamp * self._time_base - (self._origin or 0)

    def stamp(self, seconds: Fraction) -> int:
        """The time stamp of the file at or before a time."""
        return int((seconds + (self._origin or 0)) // self._time_base)

    def time(self, frame: av.VideoFrame) -> Fraction:
        """Seconds from the first frame to this one.

        Strictly increasing from call to call, except for the call after a seek.
        """
        stamp = frame.dts if self._stamps_are_dts else frame.pts
        if self._origin is None:
            return self._time_before_origin(stamp)
        self.now = self._next(None if stamp is None else self.seconds(stamp))
        return self.now

    def end_of(self, frame: av.VideoFrame) -> Fraction:
        """The time at which the latest frame gives way to the next."""
        shown = frame.duration * self._time_base if frame.duration else self.frame_period
        return self.now + shown

    def _time_before_origin(self, stamp: int | None) -> Fraction:
        if self._started:
            self.now += self.frame_period
        self._started = True
        if stamp is None:
            self.regular = False
        else:
            self._origin = stamp * self._time_base - self.now
        return self.now

    def _next(self, time: Fraction | None) -> Fraction:
        step = self.frame_period
        if self._resumed and time is not None:
            self._resumed = False
            return time
        if time is None:
            self.regular = False
            return self.now + step
        if self._end is not None and time > max(self._end, self.now) + _PAST_THE_END_S:
            self.regular = False
            return self.now + step
        if time > self.now:
            return time
        self.regular = False
        if time <= self.now - _MAX_DISORDER_S and self._origin is not None:
            self._origin -= self.now + step - time
        return self.now + step
