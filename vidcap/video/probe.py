"""What a video file is: its stream, size, orientation and duration."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import av

from vidcap.errors import InputError
from vidcap.video.duration import frame_rate, video_duration
from vidcap.video.info import VideoInfo
from vidcap.video.orientation import Orientation, display_size, orientation_of
from vidcap.video.reader import FrameReader
from vidcap.video.source import VideoSource, open_source
from vidcap.video.tonemap import HDR_TRANSFERS


@dataclass(frozen=True, slots=True)
class Look:
    """The first look at a video: what callers get to see, and exact values for the decoder."""

    info: VideoInfo
    orientation: Orientation
    duration: Fraction | None
    frame_period: Fraction | None


def probe(path: str | os.PathLike[str]) -> VideoInfo:
    """Reads the header and the first frame of a video.

    A file whose header does not tell the duration is read through once, without decoding.

    Raises:
        InputError: it is missing, unreadable, not a video, or nothing in it can be decoded.
    """
    with open_source(path) as source:
        return look_at(source, first_frame(FrameReader(source))).info


def check_video(path: str | os.PathLike[str]) -> None:
    """Finds out whether anything in a file can be decoded.

    Raises:
        InputError: it is missing, unreadable, not a video, or nothing in it can be decoded.
    """
    with open_source(path) as source:
        first_frame(FrameReader(source))


def first_frame(reader: FrameReader) -> av.VideoFrame:
    """The first frame that decodes.

    Raises:
        InputError: there is none.
    """
    frame = next(reader, None)
    if frame is None:
        raise InputError("no frame could be decoded (truncated or damaged)")
    return frame


def look_at(
    source: VideoSource,
    frame: av.VideoFrame,
    should_stop: Callable[[], bool] | None = None,
) -> Look:
    """Describes an open video by its header and its first frame."""
    stream = source.stream
    rate = frame_rate(source)
    orientation = orientation_of(frame)
    height, width = display_size(frame.height, frame.width, stream.sample_aspect_ratio, orientation)
    first_time = None if frame.pts is None else frame.pts * (stream.time_base or Fraction(0))
    duration = video_duration(source, first_time, should_stop)
    info = VideoInfo(
        path=source.path,
        container=source.container.format.name,
        codec=stream.codec_context.codec.canonical_name,
        pixel_format=frame.format.name,
        stream_index=stream.index,
        duration_s=None if duration is None else float(duration),
        width=width,
        height=height,
        coded_width=frame.width,
        coded_height=frame.height,
        rotation=orientation.rotation,
        mirrored=orientation.mirrored,
        average_fps=None if rate is None else float(rate),
        frame_count=stream.frames or None,
        interlaced=frame.interlaced_frame,
        hdr=HDR_TRANSFERS.get(frame.color_trc),
    )
    return Look(info, orientation, duration, None if rate is None else 1 / rate)
