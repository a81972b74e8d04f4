"""From the stored frame to the displayed one: sample aspect ratio, rotation, mirroring.

Rotations by quarter turns and mirror images are exact on pixels, so a frame is scaled first, in its
stored orientation, and turned afterwards: turning the small frame is cheap.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
import numpy as np
import numpy.typing as npt

#: Pixel shapes beyond this ratio come from broken headers, not from cameras.
MAX_SAMPLE_ASPECT = 16


@dataclass(frozen=True, slots=True)
class Orientation:
    """One of the eight ways to lay a stored frame on the screen.

    The stored frame is first transposed, then flipped left to right and top to bottom, each if set.
    """

    transpose: bool = False
    flip_x: bool = False
    flip_y: bool = False

    @property
    def rotation(self) -> int:
        """Counter-clockwise turn in degrees; for mirrored frames the turn before `mirrored`."""
        if self.transpose:
            return 90 if self.flip_y else 270
        return 180 if self.flip_y else 0

    @property
    def mirrored(self) -> bool:
        """Whether the frame is mirrored left to right, after the turn."""
        return self.transpose ^ self.flip_x ^ self.flip_y

    def size(self, height: int, width: int) -> tuple[int, int]:
        """The (height, width) of a laid-out frame; its own inverse."""
        return (width, height) if self.transpose else (height, width)

    def apply(self, image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """A view of an image [height, width, channels] in display orientation."""
        if self.transpose:
            image = image.swapaxes(0, 1)
        return image[:: -1 if self.flip_y else 1, :: -1 if self.flip_x else 1]


def orientation_of(frame: av.VideoFrame) -> Orientation:
    """The orientation in a frame's display matrix, to the nearest quarter turn."""
    matrix = _display_matrix(frame)
    if matrix is None:
        return _quarter_turn(frame.rotation)
    # FFmpeg's convention: x' = a x + c y, y' = b x + d y.
    a, b, c, d = matrix[0], matrix[1], matrix[3], matrix[4]
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return Orientation(False, flip_x=a < 0, flip_y=d < 0)
    return Orientation(True, flip_x=c < 0, flip_y=b < 0)


def display_size(
    height: int, width: int, sample_aspect: Fraction | None, orientation: Orientation
) -> tuple[int, int]:
    """The (height, width) at which a stored frame is displayed.

    One side is stretched, none shrunk, so that square pixels result.
    """
    if sample_aspect and Fraction(1, MAX_SAMPLE_ASPECT) <= sample_aspect <= MAX_SAMPLE_ASPECT:
        if sample_aspect > 1:
            width = round(width * sample_aspect)
        else:
            height = round(height / sample_aspect)
    return orientation.size(height, width)


def _display_matrix(frame: av.VideoFrame) -> tuple[int, ...] | None:
    try:
        data: Any = frame.side_data.get("DISPLAYMATRIX")
    except (KeyError, ValueError):
        # Side data of a kind that PyAV does not know hides the rest.
        return None
    raw = b"" if data is None else bytes(data)
    if len(raw) < 36:
        return None
    matrix = struct.unpack("=9i", raw[:36])
    return matrix if any(matrix[index] for index in (0, 1, 3, 4)) else None


def _quarter_turn(degrees: float) -> Orientation:
    turns = round(degrees / 90) % 4
    return Orientation(turns % 2 == 1, flip_x=turns in (2, 3), flip_y=turns in (1, 2))
