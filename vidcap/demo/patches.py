"""The part of each frame that an object covers: what rendering and labelling have in common.

Silhouettes are anti-aliased through signed distances, for all frames of an object at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vidcap.demo.objects import Scene, SceneObject
from vidcap.demo.shapes import SILHOUETTES


@dataclass(frozen=True, slots=True)
class Patch:
    """What an object covers in one frame.

    Attributes:
        rows, columns: the box around it, inside the frame.
        alpha: share of each pixel of the box that it covers, float32[rows, columns].
        rgb: its colour then, float32[3].
    """

    rows: slice
    columns: slice
    alpha: NDArray[np.float32]
    rgb: NDArray[np.float32]


def patches_of(scene: Scene, times_s: NDArray[np.float64]) -> Iterator[tuple[Patch | None, ...]]:
    """Per time, the patch of each object in the scene's order; None for one that is not there."""
    columns = [_patches(thing, times_s, scene.size) for thing in scene.objects]
    for k in range(len(times_s)):
        yield tuple(column[k] for column in columns)


def _patches(
    thing: SceneObject, times_s: NDArray[np.float64], size: tuple[int, int]
) -> list[Patch | None]:
    """The object's patch at each time."""
    width, height = size
    patches: list[Patch | None] = [None] * len(times_s)
    seen = np.flatnonzero(thing.there(times_s))
    if not len(seen):
        return patches
    cover, tops, lefts = _coverage(thing, times_s[seen])
    old = np.asarray(thing.rgb, np.float32)
    new = old if thing.becomes_rgb is None else np.asarray(thing.becomes_rgb, np.float32)
    changed = thing.changed(times_s)
    for k, alpha, top, left in zip(seen, cover, tops, lefts, strict=True):
        rows, columns, inner = _clip(alpha, top, left, height, width)
        patches[k] = Patch(rows, columns, inner, new if changed[k] else old)
    return patches


def _coverage(
    thing: SceneObject, times_s: NDArray[np.float64]
) -> tuple[NDArray[np.float32], list[int], list[int]]:
    """Share of each pixel that the object covers, in a box around it, and the box's corner."""
    extents, centres = thing.extents(times_s), thing.centres(times_s)
    box = math.ceil(extents.max()) + 3
    corners = np.floor(centres - box / 2).astype(int)
    offsets = (corners + 0.5 - centres).astype(np.float32)
    radius = (extents / 2).astype(np.float32)[:, None, None]
    if thing.rests:
        offsets, radius = offsets[:1], radius[:1]
    steps = np.arange(box, dtype=np.float32)
    x = (steps + offsets[:, :1])[:, None, :] / radius
    y = (steps + offsets[:, 1:])[:, :, None] / radius
    x, y = np.broadcast_arrays(x, y)
    cover = np.clip(np.float32(0.5) - SILHOUETTES[thing.shape](x, y) * radius, 0, 1)
    cover = np.broadcast_to(cover, (len(times_s), box, box))
    return cover, corners[:, 1].tolist(), corners[:, 0].tolist()


def _clip(
    alpha: NDArray[np.float32], top: int, left: int, height: int, width: int
) -> tuple[slice, slice, NDArray[np.float32]]:
    """The part of a box that lies inside the frame."""
    bottom, right = top + alpha.shape[0], left + alpha.shape[1]
    inner = alpha[max(-top, 0) : height - top, max(-left, 0) : width - left]
    return slice(max(top, 0), min(bottom, height)), slice(max(left, 0), min(right, width)), inner
