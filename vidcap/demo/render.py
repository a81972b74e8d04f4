"""Scenes to pixels, and to the label of every visual token.

Rendering is plain numpy and anti-aliased through signed distances: training draws tens of thousands
of clips, so one has to cost milliseconds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vidcap.demo.shapes import SILHOUETTES
from vidcap.demo.world import COLOURS, MOTIONS, SHAPES, SIZES, Background, Scene, SceneObject

#: Names behind the classes of :func:`token_labels`: class k is ``LABEL_NAMES[key][k - 1]``.
LABEL_NAMES: dict[str, tuple[str, ...]] = {
    "colour": tuple(COLOURS),
    "shape": SHAPES,
    "motion": tuple(MOTIONS),
    "size": tuple(SIZES),
}

#: Number of classes per key, class 0 ("no object there") included.
LABEL_CLASSES: dict[str, int] = {key: len(names) + 1 for key, names in LABEL_NAMES.items()}

#: Least share of a cell that an object must cover to give the cell its label.
MIN_COVER = 0.1


def render_frames(scene: Scene, times_s: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The scene at each time: uint8[n, height, width, 3], RGB.

    Args:
        scene: what to draw; later objects lie on top of earlier ones.
        times_s: seconds from the start of the clip, float64[n].
    """
    width, height = scene.size
    frames = np.empty((len(times_s), height, width, 3), np.float32)
    frames[:] = _background(scene.background, width, height)
    for thing in scene.objects:
        cover, tops, lefts = _coverage(thing, times_s)
        colour = np.asarray(thing.rgb, np.float32)
        for frame, alpha, top, left in zip(frames, cover, tops, lefts, strict=True):
            rows, columns, alpha = _clip(alpha, top, left, height, width)
            patch = frame[rows, columns]
            patch += alpha[:, :, None] * (colour - patch)
    return (frames + np.float32(0.5)).astype(np.uint8)


def token_labels(
    scene: Scene,
    times_s: NDArray[np.float64],
    cell_px: int = 28,
    frames_per_cell: int = 2,
) -> dict[str, NDArray[np.int16]]:
    """What each merged visual token shows: one int16[t, h, w] per key of ``LABEL_CLASSES``.

    A cell spans ``frames_per_cell`` consecutive frames (the last frame is repeated where they run
    out) and ``cell_px`` x ``cell_px`` pixels. It is labelled with the object that covers the
    largest part of it, or with 0 where none covers at least ``MIN_COVER``.

    Raises:
        ValueError: the frame is not a whole number of cells.
    """
    width, height = scene.size
    if width % cell_px or height % cell_px:
        raise ValueError(f"a frame of {width}x{height} px is not made of {cell_px} px cells")
    missing = -len(times_s) % frames_per_cell
    times_s = np.concatenate([times_s, np.repeat(times_s[-1:], missing)])
    grid = (len(times_s) // frames_per_cell, height // cell_px, width // cell_px)
    cells = (grid[0], frames_per_cell, grid[1], cell_px, grid[2], cell_px)
    shares = np.full((len(scene.objects) + 1, *grid), MIN_COVER, np.float32)
    for share, cover in zip(shares[1:], _visible(scene, times_s), strict=True):
        share[:] = cover.reshape(cells).mean(axis=(1, 3, 5))
    winner = shares.argmax(axis=0)
    labels = {}
    for key, names in LABEL_NAMES.items():
        classes = [0] + [names.index(getattr(thing, key)) + 1 for thing in scene.objects]
        labels[key] = np.asarray(classes, np.int16)[winner]
    return labels


def _visible(scene: Scene, times_s: NDArray[np.float64]) -> list[NDArray[np.float32]]:
    """Per object, the share of each pixel in which it is seen: float32[n, height, width]."""
    width, height = scene.size
    layers: list[NDArray[np.float32]] = []
    for thing in scene.objects:
        layer = np.zeros((len(times_s), height, width), np.float32)
        cover, tops, lefts = _coverage(thing, times_s)
        for k, (alpha, top, left) in enumerate(zip(cover, tops, lefts, strict=True)):
            rows, columns, alpha = _clip(alpha, top, left, height, width)
            layer[k, rows, columns] = alpha
            for below in layers:
                below[k, rows, columns] *= 1 - alpha
        layers.append(layer)
    return layers


def _coverage(
    thing: SceneObject, times_s: NDArray[np.float64]
) -> tuple[NDArray[np.float32], list[int], list[int]]:
    """Share of each pixel that the object covers, in a box around it, and the box's corner."""
    radius = thing.across_px / 2
    box = math.ceil(thing.across_px) + 3
    centres = thing.centres(times_s)
    corners = np.floor(centres - box / 2).astype(int)
    offsets = (corners + 0.5 - centres).astype(np.float32)
    steps = np.arange(box, dtype=np.float32)
    x = (steps + offsets[:, :1])[:, None, :] / np.float32(radius)
    y = (steps + offsets[:, 1:])[:, :, None] / np.float32(radius)
    x, y = np.broadcast_arrays(x, y)
    if thing.velocity_px_s == (0.0, 0.0):
        x, y = x[:1], y[:1]
    distance = SILHOUETTES[thing.shape](x, y) * np.float32(radius)
    cover = np.clip(np.float32(0.5) - distance, 0, 1)
    cover = np.broadcast_to(cover, (len(times_s), box, box))
    return cover, corners[:, 1].tolist(), corners[:, 0].tolist()


def _clip(
    alpha: NDArray[np.float32], top: int, left: int, height: int, width: int
) -> tuple[slice, slice, NDArray[np.float32]]:
    """The part of a box that lies inside the frame."""
    bottom, right = top + alpha.shape[0], left + alpha.shape[1]
    inner = alpha[max(-top, 0) : height - top, max(-left, 0) : width - left]
    return slice(max(top, 0), min(bottom, height)), slice(max(left, 0), min(right, width)), inner


def _background(background: Background, width: int, height: int) -> NDArray[np.float32]:
    """float32[height, width, 3], or a shape that broadcasts to it."""
    first = np.asarray(background.rgb[0], np.float32)
    if background.axis is None:
        return first
    last = np.asarray(background.rgb[1], np.float32)
    length = height if background.axis == "vertical" else width
    ramp = first + np.linspace(0, 1, length, dtype=np.float32)[:, None] * (last - first)
    return ramp[:, None, :] if background.axis == "vertical" else ramp[None, :, :]
