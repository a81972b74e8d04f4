"""Backgrounds: drawn from a world, and as pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vidcap.demo.objects import RGB, Background
from vidcap.demo.world import BACKGROUND_COLOURS, World

_T = TypeVar("_T")

#: Least and greatest edge of the squares of a checker and of grains, in pixels.
_SQUARE_PX, _GRAIN_PX = (14, 28), (4, 8)
#: How far grains are brighter or darker than their colour.
_GRAIN_DEPTH = 18


def pick(rng: np.random.Generator, choices: Sequence[_T]) -> _T:
    """One of the choices, all equally often."""
    return choices[int(rng.integers(len(choices)))]


def shade(rng: np.random.Generator, colour: RGB) -> RGB:
    """A colour a little off the palette, as no two cameras agree."""
    red, green, blue = (min(max(v + int(rng.integers(-6, 7)), 0), 255) for v in colour)
    return red, green, blue


def sample_background(rng: np.random.Generator, world: World) -> Background:
    """A background that may occur in a world."""
    kind = pick(rng, world.background_kinds)
    axis, cell_px, grain = None, 0, 0
    if kind in ("plain", "noise"):
        colours: tuple[str, ...] = (pick(rng, world.background_colours),)
    else:
        drawn = rng.choice(len(world.background_colours), size=2, replace=False)
        colours = tuple(world.background_colours[int(k)] for k in drawn)
    if kind == "gradient":
        axis = pick(rng, ("vertical", "horizontal"))
    elif kind != "plain":
        edges = _SQUARE_PX if kind == "checker" else _GRAIN_PX
        cell_px = int(rng.integers(*edges, endpoint=True))
        grain = int(rng.integers(2**31))
    rgb = tuple(shade(rng, BACKGROUND_COLOURS[name]) for name in colours)
    return Background(kind, colours, axis, rgb, cell_px, grain)


def draw_background(background: Background, width: int, height: int) -> NDArray[np.float32]:
    """The background as float32[height, width, 3], with values from 0 to 255."""
    first = np.asarray(background.rgb[0], np.float32)
    if background.kind == "checker":
        plane = _checker(background, width, height)
    elif background.kind == "noise":
        plane = np.clip(first + _grains(background, width, height), 0, 255)
    elif background.kind == "gradient":
        plane = _gradient(background, width, height)
    else:
        plane = first
    return np.array(np.broadcast_to(plane, (height, width, 3)))


def _gradient(background: Background, width: int, height: int) -> NDArray[np.float32]:
    first, last = (np.asarray(rgb, np.float32) for rgb in background.rgb)
    length = height if background.axis == "vertical" else width
    ramp = first + np.linspace(0, 1, length, dtype=np.float32)[:, None] * (last - first)
    return ramp[:, None, :] if background.axis == "vertical" else ramp[None, :, :]


def _checker(background: Background, width: int, height: int) -> NDArray[np.float32]:
    edge = background.cell_px
    left, top = np.random.default_rng(background.grain).integers(2 * edge, size=2)
    odd = ((np.arange(height) + top) // edge)[:, None] + ((np.arange(width) + left) // edge)
    colours = np.asarray(background.rgb, np.float32)
    return colours[odd % 2]


def _grains(background: Background, width: int, height: int) -> NDArray[np.float32]:
    """float32[height, width, 1]: how much brighter than its colour each pixel is."""
    edge = background.cell_px
    rows, columns = -(-height // edge), -(-width // edge)
    rng = np.random.default_rng(background.grain)
    values = rng.integers(-_GRAIN_DEPTH, _GRAIN_DEPTH, size=(rows, columns), endpoint=True)
    grains = values.astype(np.float32).repeat(edge, axis=0).repeat(edge, axis=1)
    return grains[:height, :width, None]
