"""Scenes of moving shapes, drawn from a seed, with a full account of what is true in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vidcap.demo.backgrounds import pick, sample_background, shade
from vidcap.demo.labels import CELL_CLASSES, LABEL_CLASSES, LABEL_NAMES, cell_labels, token_labels
from vidcap.demo.objects import Background, Scene, SceneObject
from vidcap.demo.paths import RESIZED_PX, draw_path
from vidcap.demo.relations import closing_relation
from vidcap.demo.render import render_frames
from vidcap.demo.tracks import Track
from vidcap.demo.world import (
    CLASHES,
    COLOURS,
    DEMO_WORLD,
    FIRST_WORLD,
    LONG_WORLD,
    PLACED_MOTIONS,
    RESIZING,
    RICH_WORLD,
    SIZES,
    World,
)

__all__ = [
    "CELL_CLASSES",
    "FIRST_WORLD",
    "LABEL_CLASSES",
    "LABEL_NAMES",
    "LONG_WORLD",
    "RICH_WORLD",
    "Background",
    "Scene",
    "SceneObject",
    "World",
    "cell_labels",
    "frame_times",
    "render_frames",
    "sample_scene",
    "token_labels",
    "truth",
]

#: Events come at whole seconds, this much later at most, and keep this many seconds apart and
#: away from both ends of the clip.
_LATE_S, _EVENT_GAP_S = 0.25, 2


def sample_scene(seed: int, world: World = DEMO_WORLD) -> Scene:
    """The scene that belongs to a seed: the same seed and world always give the same scene."""
    rng = np.random.default_rng(seed)
    size, duration_s = _sample_length(rng, world)
    background = sample_background(rng, world)
    count = _draw_number(rng, world.counts) + 1
    events = _draw_number(rng, world.event_counts) if len(world.event_counts) > 1 else 0
    objects = _sample_objects(rng, world, size, duration_s, background, (count, events))
    return Scene(seed, size, duration_s, background, objects)


def frame_times(scene: Scene, fps: float = 2.0) -> NDArray[np.float64]:
    """Times 0, 1/fps, 2/fps ... before the end of the clip, float64[n]."""
    return np.arange(max(round(scene.duration_s * fps), 1), dtype=np.float64) / fps


def truth(scene: Scene) -> dict[str, Any]:
    """Everything that is true of a scene, as JSON types.

    Returns:
        ``seed``, ``size`` [width, height], ``duration_s``, ``background`` {kind, colours, axis};
        ``objects`` in the order of the caption, each {colour, shape, size, motion, place,
        across_px, start_px, end_px (centres when it is first and last there), appears_s,
        disappears_s, becomes, changes_s, seen_px ([seconds, x, y] of its centre whenever another
        object appears)}; ``events`` in order of time, each {kind, object, time_s} with a position
        in ``objects``; and ``relation``, the one that the caption closes with, {kind, first,
        second} with positions in ``objects``, or None where no two objects are there together.
    """
    arrivals = sorted({thing.appears_s for thing in scene.objects if thing.appears_s is not None})
    objects = [_object_truth(thing, scene.duration_s, arrivals) for thing in scene.objects]
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
        "events": _events(objects),
        "relation": closing_relation(objects),
    }


def _object_truth(
    thing: SceneObject, duration_s: float, arrivals: Sequence[float]
) -> dict[str, Any]:
    first, last = thing.life(duration_s)
    met = [moment for moment in arrivals if first < moment < last]
    start, end, *others = thing.centres(np.asarray([first, last, *met])).round(1).tolist()
    return {
        "colour": thing.colour,
        "shape": thing.shape,
        "size": thing.size,
        "motion": thing.motion,
        "place": thing.place,
        "across_px": round(thing.across_px, 1),
        "start_px": start,
        "end_px": end,
        "appears_s": thing.appears_s,
        "disappears_s": thing.disappears_s,
        "becomes": thing.becomes,
        "changes_s": thing.changes_s,
        "seen_px": [[moment, *centre] for moment, centre in zip(met, others, strict=True)],
    }


def _events(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = {"appears": "appears_s", "disappears": "disappears_s", "changes colour": "changes_s"}
    events = [
        {"kind": kind, "object": number, "time_s": thing[key]}
        for number, thing in enumerate(objects)
        for kind, key in keys.items()
        if thing[key] is not None
    ]
    return sorted(events, key=lambda event: float(event["time_s"]))


def _draw_number(rng: np.random.Generator, weights: Sequence[float]) -> int:
    """A position in the weights."""
    shares = np.asarray(weights) / sum(weights)
    return int(rng.choice(len(shares), p=shares))


def _sample_length(rng: np.random.Generator, world: World) -> tuple[tuple[int, int], float]:
    if world.lengths:
        drawn = _draw_number(rng, [weight for *_, weight in world.lengths])
        width, height, duration_s, _ = world.lengths[drawn]
        return (width, height), duration_s
    weights = np.asarray([weight for _, _, weight in world.frame_sizes])
    width, height, _ = world.frame_sizes[int(rng.choice(len(weights), p=weights / weights.sum()))]
    return (width, height), pick(rng, world.durations_s)


def _sample_objects(
    rng: np.random.Generator,
    world: World,
    frame: tuple[int, int],
    duration_s: float,
    background: Background,
    wanted: tuple[int, int],
) -> tuple[SceneObject, ...]:
    """As many objects and events as wanted, in the frame and apart; fewer where there is no room.

    Raises:
        ValueError: not even one object without an event fits.
    """
    count, events = wanted
    colours = _seen_colours(world, background)
    rounds, attempts, _ = world.tries
    for _ in range(rounds):
        order = [colours[int(k)] for k in rng.permutation(len(colours))]
        looks = [_sample_look(rng, world, colour) for colour in order[:count]]
        if events:
            looks = _sample_events(rng, world, looks, duration_s, order[count:], events)
        # Redrawing looks too soon would make large objects, which need luck, rare.
        for _ in range(attempts):
            placed = _place_all(rng, world, frame, duration_s, looks)
            if placed is not None:
                return tuple(sorted(placed, key=_seen_first))
    if wanted == (1, 0):
        raise ValueError(f"no object of this world fits into a frame of {frame} px")
    fewer = (count - 1, events) if count > 1 else (count, events - 1)
    return _sample_objects(rng, world, frame, duration_s, background, fewer)


def _seen_colours(world: World, background: Background) -> list[str]:
    """Colours that stand out from the background."""
    unseen = frozenset().union(*(CLASHES[name] for name in background.colours))
    return [name for name in world.colours if name not in unseen]


def _seen_first(thing: SceneObject) -> tuple[float, float]:
    first, _ = thing.life(0.0)
    return first, float(thing.centres(np.asarray([first]))[0, 0])


def _sample_look(rng: np.random.Generator, world: World, colour: str) -> SceneObject:
    """An object with everything but its path."""
    motion = pick(rng, world.motions)
    size = pick(rng, world.sizes)
    return SceneObject(
        colour=colour,
        shape=pick(rng, world.shapes),
        size=None if motion in RESIZING else size,
        motion=motion,
        place=pick(rng, world.places) if motion in PLACED_MOTIONS else None,
        across_px=RESIZED_PX[1] if motion in RESIZING else float(rng.uniform(*SIZES[size])),
        start_px=(0.0, 0.0),
        velocity_px_s=(0.0, 0.0),
        rgb=shade(rng, COLOURS[colour]),
    )


def _sample_events(
    rng: np.random.Generator,
    world: World,
    looks: Sequence[SceneObject],
    duration_s: float,
    spare: Sequence[str],
    events: int,
) -> list[SceneObject]:
    """The objects with up to so many events, one each and as many as the clip has time for."""
    last = int(duration_s - _EVENT_GAP_S)
    slots = (last - _EVENT_GAP_S) // _EVENT_GAP_S + 1
    events = max(min(events, len(looks), slots), 0)
    # Whole seconds drawn close together, then moved apart.
    free = last - _EVENT_GAP_S + 1 - (events - 1) * (_EVENT_GAP_S - 1)
    drawn = sorted(rng.permutation(max(free, 0))[:events].tolist())
    seconds = [_EVENT_GAP_S + k * (_EVENT_GAP_S - 1) + second for k, second in enumerate(drawn)]
    changed = list(looks)
    numbers = rng.permutation(len(looks))[:events]
    for number, second, new in zip(numbers, seconds, spare, strict=False):
        time_s = round(second + float(rng.uniform(0.0, _LATE_S)), 2)
        kind = pick(rng, world.event_kinds)
        changed[number] = _with_event(rng, looks[number], kind, time_s, new)
    return changed


def _with_event(
    rng: np.random.Generator, look: SceneObject, kind: str, time_s: float, new: str
) -> SceneObject:
    if kind == "appears":
        return replace(look, appears_s=time_s)
    if kind == "disappears":
        return replace(look, disappears_s=time_s)
    return replace(look, becomes=new, becomes_rgb=shade(rng, COLOURS[new]), changes_s=time_s)


def _place_all(
    rng: np.random.Generator,
    world: World,
    frame: tuple[int, int],
    duration_s: float,
    looks: Sequence[SceneObject],
) -> list[SceneObject] | None:
    """The objects with paths that keep apart, None where none were found."""
    placed: list[Track] = []
    for look in sorted(looks, key=lambda look: -look.across_px):  # the large ones need the room
        for _ in range(world.tries[-1]):
            thing = draw_path(rng, world, frame, duration_s, look)
            if thing is None:
                return None
            track = Track.of(thing, duration_s)
            if all(track.apart(other, world.min_step_px) for other in placed):
                placed.append(track)
                break
        else:
            return None
    return [track.thing for track in placed]
