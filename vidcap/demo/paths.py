"""Paths of objects: drawn so that they stay in the frame, and tested for keeping apart."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vidcap.demo.objects import SceneObject, Swing
from vidcap.demo.world import DIRECTIONS, MOTIONS, PLACES, RESIZING, World

#: How deep two silhouettes may reach into each other, measured on their bounding circles.
_OVERLAP_PX = 3.0
#: Distance of an object in one place from the middle lines of the frame: at most, and at least
#: elsewhere.
_MIDDLE_PX, _ASIDE_PX = 4.0, 10.0
#: Speed along a line where the world sets none.
_SPEED_PX_S = (7.0, 20.0)
#: A mover that cannot go on to its end covers at least this share of the room that there is.
_ROOM_SHARE = 0.6
#: How often a mover that has time to spare starts late instead of resting at the end.
_LATE_SHARE = 0.3
_RADIUS_PX, _CIRCLE_S = (12.0, 24.0), (3.0, 5.0)
_BOUNCE_PX, _BOUNCE_S = (24.0, 60.0), (2.5, 4.0)
#: Extents between which objects grow and shrink, by how much at least, and how fast.
RESIZED_PX = (29.0, 56.0)
_RESIZED_BY_PX, _GROWTH_PX_S = 10.0, (2.5, 6.0)
#: Steps in which paths that are not straight are compared.
_STEP_S = 0.125

_Spot = tuple[float, float]


def draw_path(
    rng: np.random.Generator,
    world: World,
    frame: tuple[int, int],
    duration_s: float,
    look: SceneObject,
) -> SceneObject | None:
    """The object with a path inside the frame, None where this draw found no room."""
    if look.motion in RESIZING:
        return _resizing(rng, world, frame, duration_s, look)
    if look.motion == "circling":
        return _circling(rng, world, frame, look)
    if look.motion == "bouncing":
        return _bouncing(rng, world, frame, look)
    if look.motion == "still":
        edge = look.across_px / 2 + world.margin_px
        spot = _spot(rng, _ranges(world, frame, (edge, edge), look.place))
        return None if spot is None else replace(look, start_px=spot)
    if world.speed_px_s is None and look.motion in MOTIONS:
        return _crossing(rng, world, frame, duration_s, look)
    return _mover(rng, world, frame, duration_s, look)


def _ranges(
    world: World, frame: tuple[int, int], edges: tuple[float, float], place: str | None
) -> list[tuple[float, float]]:
    """From where to where the centre may be, in x and y, given how far the object reaches."""
    ranges = []
    for axis in (0, 1):
        low, high = edges[axis], frame[axis] - edges[axis]
        if place is not None:
            middle, side = frame[axis] / 2, PLACES[place][axis]
            near = max(_MIDDLE_PX, world.middle_share * frame[axis])
            far = max(_ASIDE_PX, world.aside_share * frame[axis])
            if side == 0:
                low, high = max(low, middle - near), min(high, middle + near)
            else:
                low, high = (low, middle - far) if side < 0 else (middle + far, high)
        ranges.append((low, high))
    return ranges


def _spot(rng: np.random.Generator, ranges: list[tuple[float, float]]) -> _Spot | None:
    spot = []
    for low, high in ranges:
        if high < low:
            return None
        spot.append(float(rng.uniform(low, high)))
    return spot[0], spot[1]


def _crossing(
    rng: np.random.Generator,
    world: World,
    frame: tuple[int, int],
    duration_s: float,
    look: SceneObject,
) -> SceneObject | None:
    """Along a line for the whole clip, over a random distance."""
    edge = look.across_px / 2 + world.margin_px
    starts, velocity = [], []
    for axis in (0, 1):
        low, high = edge, frame[axis] - edge
        direction, travel = MOTIONS[look.motion][axis], 0.0
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


def _mover(
    rng: np.random.Generator,
    world: World,
    frame: tuple[int, int],
    duration_s: float,
    look: SceneObject,
) -> SceneObject | None:
    """Along a line at a random speed, for as long as it lives or as there is room."""
    first, last = look.life(duration_s)
    edge = look.across_px / 2 + world.margin_px
    direction = DIRECTIONS[look.motion]
    rooms = [(frame[k] - 2 * edge) / abs(direction[k]) for k in (0, 1) if direction[k]]
    drawn = _travel(rng, world, last - first, min(rooms))
    if drawn is None:
        return None
    travel, speed = drawn
    begin = first
    if rng.random() < _LATE_SHARE:
        begin += float(rng.uniform(0.0, max(last - first - travel / speed, 0.0)))
    moves = [travel * part for part in direction]
    spot = _spot(
        rng, [(edge - min(m, 0.0), frame[k] - edge - max(m, 0.0)) for k, m in enumerate(moves)]
    )
    if spot is None:
        return None
    velocity = (speed * direction[0], speed * direction[1])
    moves_s = (begin, begin + travel / speed)
    return replace(look, start_px=spot, velocity_px_s=velocity, moves_s=moves_s)


def _travel(
    rng: np.random.Generator, world: World, life_s: float, room: float
) -> tuple[float, float] | None:
    """Distance in pixels and speed of a mover, None where the least distance is out of reach."""
    slowest, fastest = world.speed_px_s or _SPEED_PX_S
    longest = min(room, fastest * life_s)
    if longest < world.min_travel_px:
        return None
    speed = float(rng.uniform(slowest, fastest))
    travel = max(speed * life_s, world.min_travel_px)
    if travel > longest:
        travel = float(rng.uniform(max(world.min_travel_px, _ROOM_SHARE * longest), longest))
    return travel, max(speed, travel / life_s)


def _circling(
    rng: np.random.Generator, world: World, frame: tuple[int, int], look: SceneObject
) -> SceneObject | None:
    edge = look.across_px / 2 + world.margin_px
    least = edge + _RADIUS_PX[0]
    ranges = _ranges(world, frame, (least, least), look.place)
    if look.place == "middle":  # there the ranges end before the room does
        ranges = [(least, length / 2) for length in frame]
    room = min(high - low for low, high in ranges)
    if room < 0:
        return None
    radius = float(rng.uniform(_RADIUS_PX[0], min(_RADIUS_PX[0] + room, _RADIUS_PX[1])))
    spot = _spot(rng, _ranges(world, frame, (edge + radius, edge + radius), look.place))
    if spot is None:
        return None
    way = 1 if rng.random() < 0.5 else -1
    swing = Swing((radius, radius), float(rng.uniform(*_CIRCLE_S)), float(rng.random()), way)
    return replace(look, start_px=spot, swing=swing)


def _bouncing(
    rng: np.random.Generator, world: World, frame: tuple[int, int], look: SceneObject
) -> SceneObject | None:
    edge = look.across_px / 2 + world.margin_px
    axis = int(rng.integers(2))
    reach = min(_BOUNCE_PX[1], frame[axis] - 2 * edge) / 2
    if reach < _BOUNCE_PX[0] / 2:
        return None
    reach = float(rng.uniform(_BOUNCE_PX[0] / 2, reach))
    reaches = (reach, 0.0) if axis == 0 else (0.0, reach)
    spot = _spot(rng, _ranges(world, frame, (edge + reaches[0], edge + reaches[1]), None))
    if spot is None:
        return None
    swing = Swing(reaches, float(rng.uniform(*_BOUNCE_S)), float(rng.random()), 0)
    return replace(look, start_px=spot, swing=swing)


def _resizing(
    rng: np.random.Generator,
    world: World,
    frame: tuple[int, int],
    duration_s: float,
    look: SceneObject,
) -> SceneObject | None:
    first, last = look.life(duration_s)
    rate, low, change = _growth(rng, last - first)
    edge = (low + change) / 2 + world.margin_px
    spot = _spot(rng, _ranges(world, frame, (edge, edge), look.place))
    if spot is None:
        return None
    sign = RESIZING[look.motion]
    return replace(
        look,
        across_px=low if sign > 0 else low + change,
        start_px=spot,
        growth_px_s=sign * rate,
        moves_s=(first, first + change / rate),
    )


def _growth(rng: np.random.Generator, life_s: float) -> tuple[float, float, float]:
    """Rate of change of an extent, its least value, and by how much it changes."""
    slowest = max(_GROWTH_PX_S[0], _RESIZED_BY_PX / life_s)
    rate = float(rng.uniform(slowest, max(slowest, _GROWTH_PX_S[1])))
    smallest, largest = RESIZED_PX
    change = min(rate * life_s, largest - smallest)
    return rate, float(rng.uniform(smallest, largest - change)), change


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
