"""What each visual token of a scene shows, as classes to train on."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vidcap.demo.objects import Scene, SceneObject
from vidcap.demo.patches import Patch, patches_of
from vidcap.demo.world import COLOURS, DIRECTIONS, LARGE_PX, RESIZING, SHAPES, SIZES

#: Names behind the classes of :func:`token_labels`: class k is ``LABEL_NAMES[key][k - 1]``.
LABEL_NAMES: dict[str, tuple[str, ...]] = {
    "colour": tuple(COLOURS),
    "shape": SHAPES,
    "motion": (*DIRECTIONS, *RESIZING),
    "size": tuple(SIZES),
}

#: Number of classes per key, class 0 ("no object there") included.
LABEL_CLASSES: dict[str, int] = {key: len(names) + 1 for key, names in LABEL_NAMES.items()}

#: Number of classes per key of :func:`cell_labels`.
CELL_CLASSES: dict[str, int] = {"place": 9, "second": 32}

#: Consecutive frames that become one layer of visual tokens.
FRAMES_PER_CELL = 2
#: Least share of a cell that an object must cover to give the cell its label.
MIN_COVER = 0.1
#: Less than this, from frame to frame, is not seen as moving, growing or shrinking.
_MOVED_PX, _GROWN_PX = 1.5, 0.6
#: Time between two frames where the given times do not tell.
_USUAL_STEP_S = 0.5


def token_labels(
    scene: Scene, times_s: NDArray[np.float64], cell_px: int = 28
) -> dict[str, NDArray[np.int16]]:
    """What each merged visual token shows: one int16[t, h, w] per key of ``LABEL_CLASSES``.

    A cell spans ``FRAMES_PER_CELL`` consecutive frames (the last frame is repeated where they run
    out) and ``cell_px`` x ``cell_px`` pixels. It is labelled with the object that covers the
    largest part of it, or with 0 where none covers at least ``MIN_COVER``. Colour and size are
    those of the last frame of the cell. The motion is what can be seen from its first frame to the
    next: ``still``, a direction (also of objects that circle or bounce), growing or shrinking.

    Raises:
        ValueError: the frame is not a whole number of cells.
    """
    width, height = scene.size
    if width % cell_px or height % cell_px:
        raise ValueError(f"a frame of {width}x{height} px is not made of {cell_px} px cells")
    missing = -len(times_s) % FRAMES_PER_CELL
    padded = np.concatenate([times_s, np.repeat(times_s[-1:], missing)])
    winner = _shares(scene, padded, cell_px).argmax(axis=0)
    step_s = float(times_s[1] - times_s[0]) if len(times_s) > 1 else 0.0
    layers = padded.reshape(-1, FRAMES_PER_CELL)
    classes = {
        key: np.zeros((len(scene.objects) + 1, len(layers)), np.int16) for key in LABEL_NAMES
    }
    for k, thing in enumerate(scene.objects, start=1):
        for key, names in _names_then(thing, layers, step_s or _USUAL_STEP_S).items():
            classes[key][k] = [LABEL_NAMES[key].index(name) + 1 for name in names]
    layer = np.arange(len(layers))[:, None, None]
    return {key: numbers[winner, layer] for key, numbers in classes.items()}


def cell_labels(grid: tuple[int, int, int]) -> dict[str, NDArray[np.int16]]:
    """Where and when each merged visual token is: one int16[t, h, w] per key of ``CELL_CLASSES``.

    ``place`` is the part of the frame, cut into three by three, in which the middle of the cell
    lies, row by row; ``second`` is the number of the layer, capped at the last class.
    """
    t, h, w = grid
    row, column = ((2 * np.arange(n) + 1) * 3 // (2 * n) for n in (h, w))
    place = row[:, None] * 3 + column
    second = np.minimum(np.arange(t), CELL_CLASSES["second"] - 1)
    return {
        "place": np.tile(place.astype(np.int16), (t, 1, 1)),
        "second": np.tile(second.astype(np.int16)[:, None, None], (1, h, w)),
    }


def _shares(scene: Scene, times_s: NDArray[np.float64], cell_px: int) -> NDArray[np.float32]:
    """Share of each cell in which each object is seen, float32[1 + objects, t, h, w].

    The first row stands for "nothing there" and is MIN_COVER everywhere.
    """
    width, height = scene.size
    h, w = height // cell_px, width // cell_px
    shares = np.zeros((len(scene.objects) + 1, len(times_s) // FRAMES_PER_CELL, h, w), np.float32)
    planes = np.zeros((len(scene.objects), height, width), np.float32)
    for k, patches in enumerate(patches_of(scene, times_s)):
        seen = [(number, patch) for number, patch in enumerate(patches) if patch is not None]
        for number, patch in seen:
            planes[:number, patch.rows, patch.columns] *= 1 - patch.alpha
            planes[number, patch.rows, patch.columns] = patch.alpha
        for number, patch in seen:
            layer = shares[number + 1, k // FRAMES_PER_CELL]
            _add_cells(layer, planes[number], patch, cell_px)
    shares /= cell_px**2 * FRAMES_PER_CELL
    shares[0] = MIN_COVER
    return shares


def _add_cells(
    layer: NDArray[np.float32], plane: NDArray[np.float32], patch: Patch, cell_px: int
) -> None:
    """Add the sum over each cell that the patch touches to a layer, and clear the plane there."""
    (top, bottom), (left, right) = (_cells(side, cell_px) for side in (patch.rows, patch.columns))
    area = plane[top * cell_px : bottom * cell_px, left * cell_px : right * cell_px]
    cells = area.reshape(bottom - top, cell_px, right - left, cell_px)
    layer[top:bottom, left:right] += cells.sum(axis=(1, 3))
    area[:] = 0


def _cells(side: slice, cell_px: int) -> tuple[int, int]:
    """First cell that a range of pixels touches, and the one behind the last."""
    return side.start // cell_px, -(-side.stop // cell_px)


def _names_then(
    thing: SceneObject, layers: NDArray[np.float64], step_s: float
) -> dict[str, list[str]]:
    """What can be said of an object in each layer, given the times of its frames."""
    changed, extents = thing.changed(layers[:, -1]), thing.extents(layers[:, -1])
    colours = (thing.colour, thing.becomes or thing.colour)
    small, large = SIZES
    return {
        "colour": [colours[int(then)] for then in changed],
        "shape": [thing.shape] * len(layers),
        "motion": _motions(thing, layers[:, 0], step_s),
        "size": [large if across >= LARGE_PX else small for across in extents],
    }


def _motions(thing: SceneObject, times_s: NDArray[np.float64], step_s: float) -> list[str]:
    """The motion that is seen between each time and the next frame."""
    later_s = times_s + step_s
    moved = thing.centres(later_s) - thing.centres(times_s)
    grown = thing.extents(later_s) - thing.extents(times_s)
    return [
        _motion(float(x), float(y), float(more)) for (x, y), more in zip(moved, grown, strict=True)
    ]


def _motion(x: float, y: float, grown: float) -> str:
    if math.hypot(x, y) >= _MOVED_PX:
        return max(DIRECTIONS, key=lambda name: DIRECTIONS[name][0] * x + DIRECTIONS[name][1] * y)
    if abs(grown) >= _GROWN_PX:
        return "growing" if grown > 0 else "shrinking"
    return "still"
