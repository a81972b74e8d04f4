"""Silhouettes as signed distance functions, so that edges come out anti-aliased at any size.

Each function takes coordinates in units of half the silhouette's extent (x to the right, y
downwards, the silhouette inside the square from -1 to 1) and returns the distance to the outline,
negative inside. Near the outline the distance is exact enough for anti-aliasing; elsewhere only its
sign matters.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]
SignedDistance = Callable[[Plane, Plane], Plane]

_ROOT_HALF = np.float32(0.5**0.5)


def _circle(x: Plane, y: Plane) -> Plane:
    return np.hypot(x, y) - np.float32(1)


def _ring(x: Plane, y: Plane) -> Plane:
    return np.abs(np.hypot(x, y) - np.float32(0.75)) - np.float32(0.25)


def _square(x: Plane, y: Plane) -> Plane:
    return np.maximum(np.abs(x), np.abs(y)) - np.float32(0.88)


def _diamond(x: Plane, y: Plane) -> Plane:
    narrow = np.float32(1 / 0.72)
    slant = np.float32((1 + 1 / 0.72**2) ** -0.5)
    return (np.abs(x) * narrow + np.abs(y) - np.float32(1)) * slant


def _triangle(x: Plane, y: Plane) -> Plane:
    top, bottom, half_width = -0.95, 0.82, 1.0
    rise = bottom - top
    side = (np.abs(x) * np.float32(rise) - (y - np.float32(top)) * np.float32(half_width)) / (
        np.float32((rise**2 + half_width**2) ** 0.5)
    )
    return np.maximum(side, y - np.float32(bottom))


def _cross(x: Plane, y: Plane) -> Plane:
    across, along = np.abs(x), np.abs(y)
    arm, reach = np.float32(0.3), np.float32(0.98)
    upright = np.maximum(across - arm, along - reach)
    level = np.maximum(across - reach, along - arm)
    return np.minimum(upright, level)


def _star(x: Plane, y: Plane) -> Plane:
    """Five points: fold the plane into one tenth of the star, then measure to its one edge."""
    tenth = np.pi / 5
    radius = np.hypot(x, y)
    angle = np.abs(np.mod(np.arctan2(x, -y) + tenth, 2 * tenth) - tenth).astype(np.float32)
    inner = 0.46
    edge_x, edge_y = inner * np.sin(tenth), inner * np.cos(tenth) - 1.0
    length = np.hypot(edge_x, edge_y)
    along, across = radius * np.cos(angle) - np.float32(1), radius * np.sin(angle)
    return across * np.float32(-edge_y / length) + along * np.float32(edge_x / length)


def _heart(x: Plane, y: Plane) -> Plane:
    """A square on its tip with a disc on each of the two upper sides."""
    half = np.float32(0.58)
    lowered = y - np.float32(0.09)
    u, v = (lowered + x) * _ROOT_HALF, (lowered - x) * _ROOT_HALF
    body = np.maximum(np.abs(u), np.abs(v)) - half
    lobes = np.minimum(np.hypot(u + half, v), np.hypot(u, v + half)) - half
    return np.minimum(body, lobes)


SILHOUETTES: dict[str, SignedDistance] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "star": _star,
    "cross": _cross,
    "ring": _ring,
    "diamond": _diamond,
    "heart": _heart,
}
