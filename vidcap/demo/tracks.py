"""Where an object is during a clip, in steps: to tell whether two of them keep apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vidcap.demo.objects import SceneObject

#: How deep two silhouettes may reach into each other, measured on their bounding circles.
_OVERLAP_PX = 3.0
#: Steps in which paths that are not straight are compared.
_STEP_S = 0.125


@dataclass(frozen=True, slots=True)
class Track:
    """An object with its path in steps, to compare it with others."""

    thing: SceneObject
    duration_s: float
    centres: NDArray[np.float64]
    extents: NDArray[np.float64]
    there: NDArray[np.bool_]

    @classmethod
    def of(cls, thing: SceneObject, duration_s: float) -> Track:
        """The track of an object through a clip."""
        times_s = _steps(duration_s)
        centres, extents = thing.centres(times_s), thing.extents(times_s)
        return cls(thing, duration_s, centres, extents, thing.there(times_s))

    @property
    def straight(self) -> bool:
        """Whether it is there all the time and never changes its velocity or extent."""
        thing = self.thing
        whole = thing.appears_s is None and thing.disappears_s is None
        return whole and thing.moves_s is None and thing.swing is None

    def apart(self, other: Track, min_step_px: float) -> bool:
        """Whether two objects start in a visible order and never overlap much."""
        from_the_start = self.thing.appears_s is None and other.thing.appears_s is None
        if from_the_start and abs(self.centres[0, 0] - other.centres[0, 0]) < min_step_px:
            return False
        if self.straight and other.straight:
            least = (self.thing.across_px + other.thing.across_px) / 2 - _OVERLAP_PX
            return _least_distance(self.thing, other.thing, self.duration_s) >= least
        gaps = np.hypot(*(self.centres - other.centres).T) - (self.extents + other.extents) / 2
        return bool((gaps[self.there & other.there] >= -_OVERLAP_PX).all())


@lru_cache(maxsize=64)
def _steps(duration_s: float) -> NDArray[np.float64]:
    """The times at which paths are compared, from the start to the end of the clip."""
    return np.arange(0.0, duration_s + _STEP_S / 2, _STEP_S)


def _least_distance(a: SceneObject, b: SceneObject, duration_s: float) -> float:
    """Least distance of two centres during the clip."""
    gap_x, gap_y = b.start_px[0] - a.start_px[0], b.start_px[1] - a.start_px[1]
    drift_x = b.velocity_px_s[0] - a.velocity_px_s[0]
    drift_y = b.velocity_px_s[1] - a.velocity_px_s[1]
    speed = drift_x**2 + drift_y**2
    nearest_s = -(gap_x * drift_x + gap_y * drift_y) / speed if speed else 0.0
    nearest_s = min(max(nearest_s, 0.0), duration_s)
    return math.hypot(gap_x + nearest_s * drift_x, gap_y + nearest_s * drift_y)
