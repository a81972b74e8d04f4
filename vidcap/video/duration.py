"""How long a video is: by its header, or by reading its packets where the header does not tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import av
import av.error

from vidcap.video.info import DecodingInterruptedError
from vidcap.video.source import VideoSource, open_source

#: Formats without a header; what FFmpeg says about their length is a guess from the bit rate.
_HEADERLESS = frozenset({"h264", "hevc", "vvc", "m4v", "mpegvideo", "mjpeg", "av1", "obu", "h263"})

#: A video of fewer bytes per second has a damaged header, or is small enough to be scanned anyway.
_SUSPICIOUS_BYTES_PER_S = 64

#: Rates above this are time bases mistaken for frame rates.
_MAX_FPS = 1000

#: A first frame later than this makes Matroska's duration ambiguous.
_LATE_S = Fraction(1)

_MICROSECONDS = 1_000_000


def video_duration(
    source: VideoSource,
    first_time: Fraction | None,
    should_stop: Callable[[], bool] | None = None,
) -> Fraction | None:
    """Seconds from the first frame to the end of the video stream.

    Args:
        source: the open file; it is not read.
        first_time: time stamp of the first frame in seconds, None if it has none.
        should_stop: asked between packets if the file has to be scanned.

    Returns:
        None where neither the header nor the packets tell.
    """
    duration = header_duration(source, first_time)
    if duration is not None and duration * _SUSPICIOUS_BYTES_PER_S <= source.size_bytes:
        return duration
    return scan_duration(source.path, should_stop) or duration


def header_duration(source: VideoSource, first_time: Fraction | None) -> Fraction | None:
    """The duration that the file claims: the stream's own, else the container's."""
    stream, container = source.stream, source.container
    if container.format.name in _HEADERLESS:
        return None
    if stream.duration is not None and stream.duration > 0 and stream.time_base:
        return stream.duration * stream.time_base
    if "matroska" in container.format.name:
        return _matroska_duration(source, first_time or Fraction(0))
    if container.duration is None or container.duration <= 0:
        return None
    duration = Fraction(container.duration, _MICROSECONDS)
    if container.start_time is not None and first_time is not None:
        # The container may begin with sound alone.
        late = first_time - Fraction(container.start_time, _MICROSECONDS)
        if 0 < late < duration:
            duration -= late
    return duration


def _matroska_duration(source: VideoSource, first_time: Fraction) -> Fraction | None:
    """From the end of the video, which is what FFmpeg writes into Matroska files as the duration.

    Other programs write the length. The difference is small, unless the video begins late; then
    None is returned, because only the packets tell.
    """
    end = _tagged_duration(source.stream.metadata)
    if end is None and source.container.duration is not None:
        end = Fraction(source.container.duration, _MICROSECONDS)
    if end is None or not -_LATE_S < first_time < min(_LATE_S, end):
        return None
    return end - first_time


def frame_rate(source: VideoSource) -> Fraction | None:
    """Frames per second by the header, None where it tells nothing believable."""
    stream = source.stream
    rates = [stream.average_rate, stream.guessed_rate]
    if source.container.format.name in _HEADERLESS:
        # Without time stamps the average is a constant; the guess asks the codec.
        rates.reverse()
    return next((rate for rate in rates if rate is not None and 0 < rate <= _MAX_FPS), None)


def scan_duration(path: str, should_stop: Callable[[], bool] | None = None) -> Fraction | None:
    """The duration by the time stamps of all packets, none of which is decoded.

    Where no packet has a time stamp, each counts as one frame.

    Raises:
        DecodingInterruptedError: `should_stop` returned True.
    """
    with open_source(path) as source:
        rate = frame_rate(source)
        base = source.stream.time_base or Fraction(0)
        period = 1 / rate if rate else Fraction(0)
        first: Fraction | None = None
        end, count = Fraction(0), 0
        for packet in _packets(source, should_stop):
            count += 1
            stamp = packet.pts if packet.pts is not None else packet.dts
            if stamp is not None:
                time = stamp * base
                first = time if first is None else min(first, time)
                end = max(end, time + (packet.duration * base if packet.duration else period))
        duration = count * period if first is None else end - first
        return duration if duration > 0 else None


def _packets(source: VideoSource, should_stop: Callable[[], bool] | None) -> Iterator[av.Packet]:
    """The packets of the stream up to its end or the first damage."""
    try:
        for packet in source.container.demux(source.stream):
            if should_stop is not None and should_stop():
                raise DecodingInterruptedError
            if packet.size > 0:
                yield packet
    except av.error.FFmpegError:
        return


def _tagged_duration(metadata: dict[str, str]) -> Fraction | None:
    """The per-stream ``DURATION`` tag of Matroska, such as ``00:00:02.033000000``."""
    parts = metadata.get("DURATION", "").split(":")
    if len(parts) != 3:
        return None
    try:
        hours, minutes, seconds = (Fraction(part) for part in parts)
    except (ValueError, ZeroDivisionError):
        return None
    total = hours * 3600 + minutes * 60 + seconds
    return total if total > 0 else None
