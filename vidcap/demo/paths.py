"""Paths of objects, drawn so that they stay in the frame."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vidcap.demo.objects import SceneObject, Swing
from vidcap.demo.world import DIRECTIONS, MOTIONS, PLACES, RESIZING, World

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

_Ranges = list[tuple[float, float]]


def draw_path(
    rng: np.random.Generator,
    world: World,
    frame: tuple[int, int],
    duration_s: float,
    look: SceneObject,
) -> SceneObject | None:
    """The object with a path inside the frame, None where this draw found no room."""
    draw = _Draw(rng, world, frame, duration_s, look)
    if look.motion in RESIZING:
        return draw.resizing()
    if look.motion == "circling":
        return draw.circling()
    if look.motion == "bouncing":
        return draw.bouncing()
    if look.motion == "still":
        return draw.placed(draw.ranges(draw.edge, draw.edge, look.place))
    if world.speed_px_s is None and look.motion in MOTIONS:
        return draw.crossing()
    return draw.mover()


@dataclass(frozen=True, slots=True)
class _Draw:
    """One draw of a path; every method gives None where it found no room.

    Attributes:
        rng: the chance.
        world: its rules.
        frame: width and height in pixels.
        duration_s: of the clip.
        look: the object, which has no path yet.
    """

    rng: np.random.Generator
    world: World
    frame: tuple[int, int]
    duration_s: float
    look: SceneObject

    @property
    def edge(self) -> float:
        """How near the centre may come to the edges of the frame."""
        return self._edge(self.look.across_px)

    def _edge(self, across_px: float) -> float:
        return across_px / 2 + self.world.margin_px

    def ranges(self, reach_x: float, reach_y: float, place: str | None) -> _Ranges:
        """From where to where the centre may be, in x and y, given how far the object reaches."""
        ranges = []
        for axis, reach in enumerate((reach_x, reach_y)):
            low, high = reach, self.frame[axis] - reach
            if place is not None:
                middle, side = self.frame[axis] / 2, PLACES[place][axis]
                near = max(_MIDDLE_PX, self.world.middle_share * self.frame[axis])
                far = max(_ASIDE_PX, self.world.aside_share * self.frame[axis])
                if side == 0:
                    low, high = max(low, middle - near), min(high, middle + near)
                else:
                    low, high = (low, middle - far) if side < 0 else (middle + far, high)
            ranges.append((low, high))
        return ranges

    def placed(self, ranges: _Ranges) -> SceneObject | None:
        """The object with its centre somewhere in the ranges at the start."""
        spot = []
        for low, high in ranges:
            if high < low:
                return None
            spot.append(float(self.rng.uniform(low, high)))
        return replace(self.look, start_px=(spot[0], spot[1]))

    def crossing(self) -> SceneObject | None:
        """Along a line for the whole clip, over a random distance."""
        edge, least = self.edge, self.world.min_travel_px
        starts, velocity = [], []
        for axis in (0, 1):
            low, high = edge, self.frame[axis] - edge
            direction, travel = MOTIONS[self.look.motion][axis], 0.0
            if direction:
                if high - low < least:
                    return None
                travel = direction * float(self.rng.uniform(least, high - low))
                low, high = low - min(travel, 0.0), high - max(travel, 0.0)
            if high < low:
                return None
            starts.append(float(self.rng.uniform(low, high)))
            velocity.append(travel / self.duration_s)
        return replace(
            self.look, start_px=(starts[0], starts[1]), velocity_px_s=(velocity[0], velocity[1])
        )

    def mover(self) -> SceneObject | None:
        """Along a line at a random speed, for as long as it lives or as there is room."""
        first, last = self.look.life(self.duration_s)
        edge, direction = self.edge, DIRECTIONS[self.look.motion]
        rooms = [(self.frame[k] - 2 * edge) / abs(direction[k]) for k in (0, 1) if direction[k]]
        drawn = self._travel(last - first, min(rooms))
        if drawn is None:
            return None
        travel, speed = drawn
        begin = first
        if self.rng.random() < _LATE_SHARE:
            begin += float(self.rng.uniform(0.0, max(last - first - travel / speed, 0.0)))
        moves = enumerate(travel * part for part in direction)
        placed = self.placed(
            [(edge - min(move, 0.0), self.frame[k] - edge - max(move, 0.0)) for k, move in moves]
        )
        velocity = (speed * direction[0], speed * direction[1])
        moves_s = (begin, begin + travel / speed)
        return placed and replace(placed, velocity_px_s=velocity, moves_s=moves_s)

    def _travel(self, life_s: float, room: float) -> tuple[float, float] | None:
        """Distance in pixels and speed of a mover; None: the least distance is out of reach."""
        slowest, fastest = self.world.speed_px_s or _SPEED_PX_S
        least, longest = self.world.min_travel_px, min(room, fastest * life_s)
        if longest < least:
            return None
        speed = float(self.rng.uniform(slowest, fastest))
        travel = max(speed * life_s, least)
        if travel > longest:
            travel = float(self.rng.uniform(max(least, _ROOM_SHARE * longest), longest))
        return travel, max(speed, travel / life_s)

    def circling(self) -> SceneObject | None:
        """Round a centre, either way."""
        least = self.edge + _RADIUS_PX[0]
        ranges = self.ranges(least, least, self.look.place)
        if self.look.place == "middle":  # there the ranges end before the room does
            ranges = [(least, length / 2) for length in self.frame]
        room = min(high - low for low, high in ranges)
        if room < 0:
            return None
        radius = float(self.rng.uniform(_RADIUS_PX[0], min(_RADIUS_PX[0] + room, _RADIUS_PX[1])))
        reach = self.edge + radius
        placed = self.placed(self.ranges(reach, reach, self.look.place))
        if placed is None:
            return None
        way = 1 if self.rng.random() < 0.5 else -1
        return replace(placed, swing=self._swing((radius, radius), _CIRCLE_S, way))

    def bouncing(self) -> SceneObject | None:
        """To and fro along one axis."""
        axis = int(self.rng.integers(2))
        reach = min(_BOUNCE_PX[1], self.frame[axis] - 2 * self.edge) / 2
        if reach < _BOUNCE_PX[0] / 2:
            return None
        reach = float(self.rng.uniform(_BOUNCE_PX[0] / 2, reach))
        x, y = (reach, 0.0) if axis == 0 else (0.0, reach)
        placed = self.placed(self.ranges(self.edge + x, self.edge + y, None))
        return placed and replace(placed, swing=self._swing((x, y), _BOUNCE_S, 0))

    def _swing(
        self, reaches_px: tuple[float, float], period_s: tuple[float, float], way: int
    ) -> Swing:
        return Swing(reaches_px, float(self.rng.uniform(*period_s)), float(self.rng.random()), way)

    def resizing(self) -> SceneObject | None:
        """In one place, at an even rate until a random extent."""
        first, last = self.look.life(self.duration_s)
        rate, low, change = self._growth(last - first)
        edge = self._edge(low + change)
        placed = self.placed(self.ranges(edge, edge, self.look.place))
        sign = RESIZING[self.look.motion]
        return placed and replace(
            placed,
            across_px=low if sign > 0 else low + change,
            growth_px_s=sign * rate,
            moves_s=(first, first + change / rate),
        )

    def _growth(self, life_s: float) -> tuple[float, float, float]:
        """Rate of change of an extent, its least value, and by how much it changes."""
        slowest = max(_GROWTH_PX_S[0], _RESIZED_BY_PX / life_s)
        rate = float(self.rng.uniform(slowest, max(slowest, _GROWTH_PX_S[1])))
        smallest, largest = RESIZED_PX
        change = min(rate * life_s, largest - smallest)
        return rate, float(self.rng.uniform(smallest, largest - change)), change
