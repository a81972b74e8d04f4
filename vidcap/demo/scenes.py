"""Scenes of moving shapes, drawn from a seed, with a full account of what is true in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vidcap.demo.relations import closing_relation
from vidcap.demo.render import LABEL_CLASSES, LABEL_NAMES, render_frames, token_labels
from vidcap.demo.world import (
    BACKGROUND_COLOURS,
    CLASHES,
    COLOURS,
    FIRST_WORLD,
    MOTIONS,
    PLACES,
    RGB,
    SIZES,
    Background,
    Scene,
    SceneObject,
    World,
)

__all__ = [
    "FIRST_WORLD",
    "LABEL_CLASSES",
    "LABEL_NAMES",
    "Background",
    "Scene",
    "SceneObject",
    "World",
    "frame_times",
    "render_frames",
    "sample_scene",
    "token_labels",
    "truth",
]

_T = TypeVar("_T")

#: Tries to find room for one object, and to find objects that fit together.
_TRIES = 24
#: How deep two silhouettes may reach into each other, measured on their bounding circles.
_OVERLAP_PX = 3.0
#: Distance of a still object from the middle lines of the frame: at most, and at least elsewhere.
_MIDDLE_PX, _ASIDE_PX = 4.0, 10.0


def sample_scene(seed: int, world: World = FIRST_WORLD) -> Scene:
    """The scene that belongs to a seed: the same seed and world always give the same scene."""
    rng = np.random.default_rng(seed)
    weights = np.asarray([weight for _, _, weight in world.frame_sizes])
    width, height, _ = world.frame_sizes[int(rng.choice(len(weights), p=weights / weights.sum()))]
    duration_s = _pick(rng, world.durations_s)
    background = _sample_background(rng, world)
    chances = np.asarray(world.counts) / sum(world.counts)
    count = int(rng.choice(len(chances), p=chances)) + 1
    size = (width, height)
    objects = _sample_objects(rng, world, size, duration_s, background, count)
    return Scene(seed, size, duration_s, background, objects)


def frame_times(scene: Scene, fps: float = 2.0) -> NDArray[np.float64]:
    """Times 0, 1/fps, 2/fps ... before the end of the clip, float64[n]."""
    return np.arange(max(round(scene.duration_s * fps), 1), dtype=np.float64) / fps


def truth(scene: Scene) -> dict[str, Any]:
    """Everything that is true of a scene, as JSON types.

    Keys: ``seed``, ``size`` [width, height], ``duration_s``, ``background`` {kind, colours, axis},
    ``objects`` in the order of the caption, each {colour, shape, size, motion, place, across_px,
    start_px, end_px}, and ``relation``, the one that the caption closes with, {kind, first, second}
    with positions in ``objects``, or None for a single object.
    """
    objects = [_object_truth(thing, scene.duration_s) for thing in scene.objects]
    background = scene.background
    return {
        "seed": scene.seed,
        "size": list(scene.size),
        "duration_s": scene.duration_s,
        "background": {
            "kind": background.kind,
            "colours": list(background.colours),
            "axis": background.axis,
        },
        "objects": objects,
        "relation": closing_relation(objects),
    }


def _object_truth(thing: SceneObject, duration_s: float) -> dict[str, Any]:
    ends = thing.centres(np.asarray([0.0, duration_s]))
    return {
        "colour": thing.colour,
        "shape": thing.shape,
        "size": thing.size,
        "motion": thing.motion,
        "place": thing.place,
        "across_px": round(thing.across_px, 1),
        "start_px": [round(float(value), 1) for value in ends[0]],
        "end_px": [round(float(value), 1) for value in ends[1]],
    }


def _pick(rng: np.random.Generator, choices: Sequence[_T]) -> _T:
    return choices[int(rng.integers(len(choices)))]


def _shade(rng: np.random.Generator, colour: RGB) -> RGB:
    """A colour a little off the palette, as no two cameras agree."""
    red, green, blue = (min(max(v + int(rng.integers(-6, 7)), 0), 255) for v in colour)
    return red, green, blue


def _sample_background(rng: np.random.Generator, world: World) -> Background:
    kind = _pick(rng, world.background_kinds)
    if kind == "plain":
        colours: tuple[str, ...] = (_pick(rng, world.background_colours),)
        axis = None
    else:
        drawn = rng.choice(len(world.background_colours), size=2, replace=False)
        colours = tuple(world.background_colours[int(k)] for k in drawn)
        axis = _pick(rng, ("vertical", "horizontal"))
    rgb = tuple(_shade(rng, BACKGROUND_COLOURS[name]) for name in colours)
    return Background(kind, colours, axis, rgb)


def _sample_objects(
    rng: np.random.Generator,
    world: World,
    frame: tuple[int, int],
    duration_s: float,
    background: Background,
    count: int,
) -> tuple[SceneObject, ...]:
    """``count`` objects that stay in the frame and apart; fewer where there is no room."""
    unseen = frozenset().union(*(CLASHES[name] for name in background.colours))
    colours = [name for name in world.colours if name not in unseen]
    for _ in range(_TRIES):
        order = rng.permutation(len(colours))[:count]
        looks = [_sample_look(rng, world, colours[int(k)]) for k in order]
        # Redrawing looks too soon would make large objects, which need luck, rare.
        for _ in range(_TRIES // 2):
            placed = _place_all(rng, world, frame, duration_s, looks)
            if placed is not None:
                return tuple(sorted(placed, key=lambda thing: thing.start_px))
    if count == 1:
        raise ValueError(f"no object of this world fits into a frame of {frame} px")
    return _sample_objects(rng, world, frame, duration_s, background, count - 1)


def _sample_look(rng: np.random.Generator, world: World, colour: str) -> SceneObject:
    """An object with everything but its path."""
    motion = _pick(rng, world.motions)
    size = _pick(rng, world.sizes)
    return SceneObject(
        colour=colour,
        shape=_pick(rng, world.shapes),
        size=size,
        motion=motion,
        place=_pick(rng, world.places) if motion == "still" else None,
        across_px=float(rng.uniform(*SIZES[size])),
        start_px=(0.0, 0.0),
        velocity_px_s=(0.0, 0.0),
        rgb=_shade(rng, COLOURS[colour]),
    )


def _place_all(
    rng: np.random.Generator,
    world: World,
    frame: tuple[int, int],
    duration_s: float,
    looks: Sequence[SceneObject],
) -> list[SceneObject] | None:
    """The objects with paths that keep apart, None where none were found."""
    placed: list[SceneObject] = []
    for look in sorted(looks, key=lambda look: -look.across_px):  # the large ones need the room
        for _ in range(_TRIES):
            thing = _place(rng, world, frame, duration_s, look)
            if thing is None:
                return None
            if all(_keep_apart(thing, other, world.min_step_px, duration_s) for other in placed):
                placed.append(thing)
                break
        else:
            return None
    return placed


def _place(
    rng: np.random.Generator,
    world: World,
    frame: tuple[int, int],
    duration_s: float,
    look: SceneObject,
) -> SceneObject | None:
    """The object with a path inside the frame, None where there is none."""
    edge = look.across_px / 2 + world.margin_px
    starts, velocity = [], []
    for axis in (0, 1):
        low, high = edge, frame[axis] - edge
        direction, travel = MOTIONS[look.motion][axis], 0.0
        if look.place is not None:
            low, high = _resting_range(low, high, frame[axis] / 2, PLACES[look.place][axis])
        if direction:
            if high - low < world.min_travel_px:
                return None
            travel = direction * float(rng.uniform(world.min_travel_px, high - low))
            low, high = low - min(travel, 0.0), high - max(travel, 0.0)
        if high < low:
            return None
        starts.append(float(rng.uniform(low, high)))
        velocity.append(travel / duration_s)
    return replace(look, start_px=(starts[0], starts[1]), velocity_px_s=(velocity[0], velocity[1]))


def _resting_range(low: float, high: float, middle: float, side: int) -> tuple[float, float]:
    if side == 0:
        return max(low, middle - _MIDDLE_PX), min(high, middle + _MIDDLE_PX)
    return (low, middle - _ASIDE_PX) if side < 0 else (middle + _ASIDE_PX, high)


def _keep_apart(a: SceneObject, b: SceneObject, min_step_px: float, duration_s: float) -> bool:
    """Whether two objects start in a visible order and never overlap much."""
    if abs(a.start_px[0] - b.start_px[0]) < min_step_px:
        return False
    least = (a.across_px + b.across_px) / 2 - _OVERLAP_PX
    return _least_distance(a, b, duration_s) >= least


def _least_distance(a: SceneObject, b: SceneObject, duration_s: float) -> float:
    """Least distance of two centres during the clip."""
    gap_x, gap_y = b.start_px[0] - a.start_px[0], b.start_px[1] - a.start_px[1]
    drift_x = b.velocity_px_s[0] - a.velocity_px_s[0]
    drift_y = b.velocity_px_s[1] - a.velocity_px_s[1]
    speed = drift_x**2 + drift_y**2
    nearest_s = -(gap_x * drift_x + gap_y * drift_y) / speed if speed else 0.0
    nearest_s = min(max(nearest_s, 0.0), duration_s)
    return math.hypot(gap_x + nearest_s * drift_x, gap_y + nearest_s * drift_y)
