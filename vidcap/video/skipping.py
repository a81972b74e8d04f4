"""Which frames may stay undecoded: those that no other frame refers to, far from what is wanted.

About half of the frames of usual files are such. Time stamps of packets tell before decoding how
far a frame is from the next wanted time, so the frames that matter are decoded as ever.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

from vidcap.video.clock import Clock
from vidcap.video.source import VideoSource

#: Codecs whose decoders leave such frames out, frame by frame as asked.
_CODECS = frozenset({"h264", "hevc", "mpeg2video", "mpeg4"})

#: Frames this near to a wanted time are decoded. A frame further off that comes out as the nearest
#: may not be the nearest.
_NEAR_FRAMES = 3


class Skipper:
    """Tells packets whose frames may be left out.

    Args:
        source, clock: the open file and the times of its frames.

    Attributes:
        near: in seconds; frames up to this far from a wanted time are never left out.
        used: whether anything was allowed to be left out so far.
    """

    def __init__(self, source: VideoSource, clock: Clock):
        base = source.stream.time_base or Fraction(1, 1000)
        self._clock = clock
        self._near = math.ceil(_NEAR_FRAMES * clock.frame_period / base)
        self._wanted: list[int] = []
        self.near = self._near * base
        self.used = False

    def want(self, times: Sequence[Fraction]) -> None:
        """Sets the wanted times, in seconds, increasing."""
        self._wanted = [self._clock.stamp(time) for time in times]

    def may_skip(self, stamp: int | None) -> bool:
        """Whether a frame with this time stamp is far from all wanted times.

        Nothing is left out behind the last of them: what is wanted next is not known.
        """
        if stamp is None or not self._clock.regular:
            return False
        place = bisect_left(self._wanted, stamp - self._near)
        far = place < len(self._wanted) and self._wanted[place] > stamp + self._near
        self.used = self.used or far
        return far


def can_skip(source: VideoSource) -> bool:
    """Whether the frames of this stream that no other frame refers to can be told and left out."""
    codec = source.stream.codec_context
    if codec.name == "hevc":
        return _is_one_layer(codec.extradata)
    return codec.name in _CODECS


def _is_one_layer(header: bytes | None) -> bool:
    """Whether an HEVC stream has no temporal layers, by the header of MP4 and Matroska.

    With layers, frames that their own layer does not refer to may be needed by another (ITU-T
    H.265, sub-layer non-reference picture).
    """
    return header is not None and len(header) > 22 and header[0] == 1 and header[21] >> 3 & 7 == 1
