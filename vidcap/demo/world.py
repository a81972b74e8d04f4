"""What a rendered scene is made of: palettes, the settings of a world, and the scene itself.

A :class:`World` says what may occur; ``vidcap.demo.scenes`` draws a :class:`Scene` from it and
``vidcap.demo.render`` turns that into frames. Names used here are the words of the captions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RGB = tuple[int, int, int]

#: Colours of objects.
COLOURS: dict[str, RGB] = {
    "red": (222, 36, 36),
    "orange": (246, 138, 20),
    "yellow": (246, 228, 48),
    "green": (48, 172, 64),
    "cyan": (64, 214, 226),
    "blue": (44, 92, 232),
    "purple": (140, 56, 188),
    "pink": (252, 142, 196),
    "brown": (136, 82, 38),
    "white": (246, 246, 246),
}

#: Colours of backgrounds.
BACKGROUND_COLOURS: dict[str, RGB] = {
    "black": (16, 16, 18),
    "gray": (126, 126, 126),
    "navy": (20, 28, 84),
    "maroon": (88, 18, 36),
    "teal": (8, 92, 92),
    "beige": (222, 206, 170),
}

#: Object colours that would be hard to see on a background.
CLASHES: dict[str, frozenset[str]] = {
    "black": frozenset(),
    "gray": frozenset(),
    "navy": frozenset({"blue", "purple"}),
    "maroon": frozenset({"brown", "red"}),
    "teal": frozenset({"green", "blue"}),
    "beige": frozenset({"white", "yellow"}),
}

SHAPES: tuple[str, ...] = (
    "circle",
    "square",
    "triangle",
    "star",
    "cross",
    "ring",
    "diamond",
    "heart",
)

#: Least and greatest extent in pixels, smallest size first.
SIZES: dict[str, tuple[float, float]] = {"small": (29.0, 33.0), "large": (49.0, 55.0)}

#: Unit vector of each motion, in image coordinates (y grows downwards).
MOTIONS: dict[str, tuple[float, float]] = {
    "still": (0.0, 0.0),
    "left": (-1.0, 0.0),
    "right": (1.0, 0.0),
    "up": (0.0, -1.0),
    "down": (0.0, 1.0),
}

#: Where an object that does not move rests: sign of its offset from the middle of the frame.
PLACES: dict[str, tuple[int, int]] = {
    "upper left": (-1, -1),
    "upper right": (1, -1),
    "lower left": (-1, 1),
    "lower right": (1, 1),
    "middle": (0, 0),
}


@dataclass(frozen=True, slots=True)
class World:
    """What may occur in a scene, and how often.

    Attributes:
        counts: weights of scenes with 1, 2, 3 ... objects.
        shapes, colours, sizes, motions, places: names that may be drawn, all equally often.
        background_kinds: ``plain`` and ``gradient``.
        background_colours: names that may be drawn for backgrounds.
        frame_sizes: (width, height, weight) of each frame size, in pixels.
        durations_s: lengths that may be drawn.
        min_travel_px: least distance that a moving object covers in the clip.
        margin_px: least distance between an object and the edge of the frame.
        min_step_px: least horizontal distance between two objects at the start, so that their
            order from left to right can be seen.
    """

    counts: tuple[float, ...] = (0.35, 0.65)
    shapes: tuple[str, ...] = SHAPES
    colours: tuple[str, ...] = tuple(COLOURS)
    sizes: tuple[str, ...] = tuple(SIZES)
    motions: tuple[str, ...] = tuple(MOTIONS)
    places: tuple[str, ...] = tuple(PLACES)
    background_kinds: tuple[str, ...] = ("plain", "gradient")
    background_colours: tuple[str, ...] = tuple(BACKGROUND_COLOURS)
    frame_sizes: tuple[tuple[int, int, float], ...] = (
        (112, 112, 0.7),
        (140, 112, 0.15),
        (112, 140, 0.15),
    )
    durations_s: tuple[float, ...] = (3.0, 3.5, 4.0, 4.5, 5.0)
    min_travel_px: float = 32.0
    margin_px: float = 2.0
    min_step_px: float = 12.0


#: One or two objects, five motions: what the first demo pair knows.
FIRST_WORLD = World()


@dataclass(frozen=True, slots=True)
class Background:
    """A background of one colour, or of two that blend into each other.

    Attributes:
        kind: ``plain`` or ``gradient``.
        colours: one name, or two: the first at the top or on the left.
        axis: ``vertical`` (top to bottom) or ``horizontal`` (left to right), None when plain.
        rgb: the colour values drawn for ``colours``.
    """

    kind: str
    colours: tuple[str, ...]
    axis: str | None
    rgb: tuple[RGB, ...]


@dataclass(frozen=True, slots=True)
class SceneObject:
    """One object and its path.

    Attributes:
        across_px: extent of the silhouette.
        place: where a still object rests, None for one that moves.
        start_px: centre (x, y) at time zero.
        velocity_px_s: constant velocity (x, y).
    """

    colour: str
    shape: str
    size: str
    motion: str
    place: str | None
    across_px: float
    start_px: tuple[float, float]
    velocity_px_s: tuple[float, float]
    rgb: RGB

    def centres(self, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Centre (x, y) in pixels at each time, float64[n, 2]."""
        return np.asarray(self.start_px) + times_s[:, None] * np.asarray(self.velocity_px_s)


@dataclass(frozen=True, slots=True)
class Scene:
    """One clip: everything that is true of it.

    Attributes:
        seed: the seed it was drawn from.
        size: (width, height) in pixels.
        objects: from left to right at time zero, the order in which captions name them.
    """

    seed: int
    size: tuple[int, int]
    duration_s: float
    background: Background
    objects: tuple[SceneObject, ...]
