"""How two objects of a scene relate: which relation a caption closes with, and what holds.

Works on the ``objects`` of ``vidcap.demo.scenes.truth``, so that the scorer needs no scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vidcap.demo.world import MOTIONS, SIZES

#: Relations that name a first and a second object; the others are symmetric.
DIRECTED = ("larger", "above", "left")
SYMMETRIC = ("same", "opposite", "both still")

#: How much higher one object has to start for the caption to speak of above and below.
ABOVE_PX = 20.0


def holds(kind: str, first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether a relation is true of two objects, places compared at the start of the clip."""
    one, other = MOTIONS[first["motion"]], MOTIONS[second["motion"]]
    sizes = list(SIZES)
    along = one[0] * other[0] + one[1] * other[1]
    checks = {
        "larger": sizes.index(first["size"]) > sizes.index(second["size"]),
        "above": first["start_px"][1] < second["start_px"][1],
        "left": first["start_px"][0] < second["start_px"][0],
        "same": along > 0 and first["motion"] == second["motion"],
        "opposite": along < 0,
        "both still": first["motion"] == second["motion"] == "still",
    }
    return checks[kind]


def closing_relation(objects: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The relation between the leftmost and the rightmost object that says most.

    Returns:
        {kind, first, second} with positions in ``objects``; None for fewer than two objects.
    """
    if len(objects) < 2:
        return None
    ends = (0, len(objects) - 1)
    for kind in ("opposite", "same", "both still", "larger"):
        for first, second in (ends, ends[::-1]):
            if holds(kind, objects[first], objects[second]):
                return {"kind": kind, "first": first, "second": second}
    rise = objects[ends[1]]["start_px"][1] - objects[ends[0]]["start_px"][1]
    if abs(rise) >= ABOVE_PX:
        first, second = ends if rise > 0 else ends[::-1]
        return {"kind": "above", "first": first, "second": second}
    return {"kind": "left", "first": ends[0], "second": ends[1]}
