"""The values that the video reader hands out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

#: (number of frames, height, width as displayed) -> (height, width) that the model wants.
FrameSize = Callable[[int, int, int], tuple[int, int]]


class DecodingInterruptedError(Exception):
    """`should_stop` asked for the end of the work; nothing is wrong with the file."""


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """What a video file holds, as seen from its header and its first frame.

    Attributes:
        path: the path as given.
        container: FFmpeg's name of the file format, such as ``matroska,webm``.
        codec: name of the video codec, such as ``h264``.
        pixel_format: FFmpeg's name of the layout of a decoded frame.
        stream_index: index of the chosen video stream in the file.
        duration_s: seconds from the first frame to the end, None when the file does not tell.
        width, height: in pixels as displayed, after sample aspect ratio and rotation.
        coded_width, coded_height: in pixels as stored.
        rotation: counter-clockwise turn that puts the stored frame upright: 0, 90, 180 or 270.
        mirrored: whether the display matrix also mirrors the frame.
        average_fps: frames per second that the header claims.
        frame_count: number of frames that the header claims.
        interlaced: whether the first frame is interlaced.
        hdr: ``PQ`` or ``HLG`` for high dynamic range, None for an ordinary one.
    """

    path: str
    container: str
    codec: str
    pixel_format: str
    stream_index: int
    duration_s: float | None
    width: int
    height: int
    coded_width: int
    coded_height: int
    rotation: int
    mirrored: bool
    average_fps: float | None
    frame_count: int | None
    interlaced: bool
    hdr: str | None = None


@dataclass(frozen=True, slots=True)
class Frames:
    """The sampled frames of one video.

    Attributes:
        rgb: uint8 [n, height, width, 3], upright and in display proportions.
        times_s: float64 [n], seconds from the first frame of the stream, increasing.
        info: the video they come from.
        decoded_s: up to which time the video could be read; the end of the asked range where all
            of it could.
        corrupt_frames: damaged frames and packets that were left out.
        warnings: what the user should know, one sentence each.
    """

    rgb: npt.NDArray[np.uint8]
    times_s: npt.NDArray[np.float64]
    info: VideoInfo
    decoded_s: float
    corrupt_frames: int
    warnings: tuple[str, ...]

    @property
    def sampled_fps(self) -> float | None:
        """Frames per second by the mean spacing of the sampled frames, None for a single frame."""
        if len(self.times_s) < 2:
            return None
        return float((len(self.times_s) - 1) / (self.times_s[-1] - self.times_s[0]))

    def thinned(self) -> Frames:
        """Every second frame, so half of them, at the same size."""
        return replace(self, rgb=self.rgb[::2], times_s=self.times_s[::2])
