"""How two objects of a scene relate: which relation a caption closes with, and what holds.

Works on the ``objects`` of ``vidcap.demo.scenes.truth``, so that the scorer needs no scene.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from vidcap.demo.world import DIRECTIONS, SIZES

#: How much higher one object has to be for the caption to speak of above and below.
ABOVE_PX = 20.0
#: Below this the product of two directions means that they are opposite.
_OPPOSITE = -0.9


def holds(kind: str, first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether a relation is true of two objects.

    Places are compared at the moment from which on both are there. Nothing holds of objects that
    are never there together; directions and sizes are only compared where both have one.
    """
    moment_s = meeting_s(first, second)
    if moment_s is None:
        return False
    if kind in ("above", "left"):
        axis = 1 if kind == "above" else 0
        return where(first, moment_s)[axis] < where(second, moment_s)[axis]
    if kind == "larger":
        if first["size"] is None or second["size"] is None:
            return False
        sizes = list(SIZES)
        return sizes.index(first["size"]) > sizes.index(second["size"])
    if kind == "both still":
        return bool(first["motion"] == second["motion"] == "still")
    one, other = (DIRECTIONS.get(thing["motion"], (0.0, 0.0)) for thing in (first, second))
    along = one[0] * other[0] + one[1] * other[1]
    checks = {"same": along > -_OPPOSITE, "opposite": along < _OPPOSITE}
    return checks[kind]


def meeting_s(first: dict[str, Any], second: dict[str, Any]) -> float | None:
    """From when on two objects are both there, in seconds; None where they never are."""
    starts = [float(thing.get("appears_s") or 0.0) for thing in (first, second)]
    ends = [thing.get("disappears_s") for thing in (first, second)]
    moment_s = max(starts)
    return moment_s if all(end is None or end > moment_s for end in ends) else None


def where(thing: dict[str, Any], time_s: float) -> Sequence[float]:
    """Centre (x, y) of an object in pixels, at its start or when another object appears."""
    for moment_s, x, y in thing.get("seen_px", ()):
        if math.isclose(moment_s, time_s):
            return x, y
    start: Sequence[float] = thing["start_px"]
    return start


def closing_relation(objects: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The relation that says most, of the first and the last object or, where these are never
    there together, of the first pair that is.

    Returns:
        {kind, first, second} with positions in ``objects``; None where there is no such pair.
    """
    pairs = [(0, len(objects) - 1), *combinations(range(len(objects)), 2)]
    for ends in pairs:
        if ends[0] < ends[1] and meeting_s(objects[ends[0]], objects[ends[1]]) is not None:
            return _relation(objects, ends)
    return None


def _relation(objects: Sequence[dict[str, Any]], ends: tuple[int, int]) -> dict[str, Any]:
    one, other = (objects[k] for k in ends)
    for kind in ("opposite", "same", "both still", "larger"):
        for first, second in (ends, ends[::-1]):
            if holds(kind, objects[first], objects[second]):
                return {"kind": kind, "first": first, "second": second}
    moment_s = meeting_s(one, other) or 0.0
    (left, top), (right, bottom) = where(one, moment_s), where(other, moment_s)
    if abs(bottom - top) >= ABOVE_PX:
        first, second = ends if bottom > top else ends[::-1]
        return {"kind": "above", "first": first, "second": second}
    first, second = ends if left < right else ends[::-1]
    return {"kind": "left", "first": first, "second": second}
