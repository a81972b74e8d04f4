"""Opening a file and choosing its video stream; FFmpeg's errors become one-line explanations.

FFmpeg's own log goes nowhere, which is PyAV's default, until :func:`show_decoder_log` is called.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import av
import av.error
import av.logging
from av.container import InputContainer
from av.stream import Disposition
from av.video.stream import VideoStream

from vidcap.errors import InputError

#: A frame of more pixels is refused: decoding alone would take gigabytes. 16K video has 2**27.
MAX_FRAME_PIXELS = 2**27

#: Formats that describe other files, capture devices, or (`tty`) draw any text as a picture.
_REFUSED_FORMATS = frozenset(
    {"alsa", "concat", "dash", "fbdev", "hls", "image2", "kmsgrab", "lavfi", "oss", "rawvideo"}
    | {"rtp", "rtsp", "sap", "sdp", "tty", "video4linux2,v4l2", "webm_dash_manifest", "x11grab"}
)

#: Streams that carry a picture about the video rather than the video.
_NOT_THE_VIDEO = Disposition.attached_pic | Disposition.timed_thumbnails


@dataclass(frozen=True, slots=True)
class VideoSource:
    """An open file with the stream that is watched."""

    path: str
    size_bytes: int
    container: InputContainer
    stream: VideoStream


@contextmanager
def open_source(path: str | os.PathLike[str]) -> Iterator[VideoSource]:
    """Opens a local file and closes it afterwards.

    Raises:
        InputError: the file is missing or unreadable, not a video, or has no usable stream.
    """
    name = os.fspath(path)
    size_bytes = _regular_file_size(name)
    with _open_container(name) as container:
        stream = _choose_stream(container, name)
        for other in container.streams:
            if other is not stream:
                other.discard = av.stream.Discard.all
        yield VideoSource(name, size_bytes, container, stream)


def _regular_file_size(name: str) -> int:
    try:
        status = os.stat(name)
    except OSError as error:
        raise InputError(_os_reason(error)) from error
    except ValueError as error:
        raise InputError("no such file") from error
    if stat.S_ISDIR(status.st_mode):
        raise InputError("is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise InputError("not a regular file", hint="a video can be piped in with '-' as the input")
    if status.st_size == 0:
        raise InputError("not a video (the file is empty)")
    return status.st_size


def _open_container(name: str) -> InputContainer:
    options = {"protocol_whitelist": "file", "format_whitelist": _accepted_formats()}
    try:
        # The prefix keeps names such as `a:b.mp4` or `-x.mp4` from being read as something else.
        return av.open(f"file:{name}", "r", options=options, metadata_errors="replace")
    except (av.error.InvalidDataError, av.error.ArgumentError, av.error.EOFError) as error:
        raise InputError(_what_it_is_instead(name)) from error
    except OSError as error:
        raise InputError(_os_reason(error)) from error
    except (av.error.FFmpegError, ValueError) as error:
        raise InputError(f"cannot be opened: {_ffmpeg_reason(error)}") from error


@lru_cache(maxsize=1)
def _accepted_formats() -> str:
    return ",".join(sorted(av.formats_available - _REFUSED_FORMATS))


def _what_it_is_instead(name: str) -> str:
    """Says of a file that FFmpeg does not recognise whether it looks like a damaged video."""
    return "not a video" if _looks_like_text(name) else "truncated or not a video"


def _looks_like_text(name: str) -> bool:
    try:
        with Path(name).open("rb") as file:
            head = file.read(4096)
        # The incremental decoder does not mind a character that is cut at the end of the head.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except (OSError, UnicodeDecodeError):
        return False
    return b"\0" not in head


def _choose_stream(container: InputContainer, name: str) -> VideoStream:
    streams = [s for s in container.streams.video if not s.disposition & _NOT_THE_VIDEO]
    if not streams:
        raise InputError(_why_no_stream(container, name))
    usable = [s for s in streams if s.codec_context is not None]
    if not usable:
        raise InputError("no decoder for its video codec")
    stream = max(usable, key=_preference)
    if stream.width * stream.height > MAX_FRAME_PIXELS:
        raise InputError(f"frames of {stream.width}x{stream.height} pixels are too large")
    return stream


def _preference(stream: VideoStream) -> tuple[bool, int, int]:
    is_default = bool(stream.disposition & Disposition.default)
    return is_default, stream.width * stream.height, -stream.index


def _why_no_stream(container: InputContainer, name: str) -> str:
    if container.streams.audio:
        # Some texts pass for sound: FFmpeg guesses formats without a signature.
        return "not a video" if _looks_like_text(name) else "no video stream (audio only)"
    if len(container.streams) == 0:
        return "truncated or not a video"
    return "no video stream"


def _os_reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "permission denied"
    if isinstance(error, IsADirectoryError):
        return "is a directory"
    reason = error.strerror or str(error)
    return reason[:1].lower() + reason[1:]


def _ffmpeg_reason(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or type(error).__name__
    return str(reason)[:1].lower() + str(reason)[1:]


def show_decoder_log() -> None:
    """Let FFmpeg write its warnings to standard error, past Python.

    Through Python's logging, decoding threads could wait for each other; FFmpeg's own printing
    takes no lock of ours.
    """
    av.logging.restore_default_callback()
    av.logging.set_level(av.logging.WARNING)
