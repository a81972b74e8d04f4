"""Scenes as data: the background, the objects with their paths and lives, and the whole clip."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RGB = tuple[int, int, int]
Times = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Background:
    """What lies behind the objects; it does not change in the course of a clip.

    Attributes:
        kind: ``plain``, ``gradient`` (two colours that blend into each other), ``checker`` (squares
            of two colours) or ``noise`` (a grainy version of one colour).
        colours: one name, or two for gradient (the first at the top or on the left) and checker.
        axis: ``vertical`` (top to bottom) or ``horizontal`` (left to right), None unless gradient.
        rgb: the colour values drawn for ``colours``.
        cell_px: edge of a square of the checker or of a grain, 0 otherwise.
        grain: seed of the pattern: where the checker begins, and the values of the grains.
    """

    kind: str
    colours: tuple[str, ...]
    axis: str | None
    rgb: tuple[RGB, ...]
    cell_px: int = 0
    grain: int = 0


@dataclass(frozen=True, slots=True)
class Swing:
    """A motion that repeats: round a circle, or back and forth along one axis at constant speed.

    Attributes:
        reach_px: greatest distance from the middle in x and y; both are the radius of a circle.
        period_s: how long one turn takes.
        phase: where in a turn time zero falls, in turns.
        way: 1 for a circle that is run through clockwise, -1 for the other way, 0 for an axis.
    """

    reach_px: tuple[float, float]
    period_s: float
    phase: float
    way: int

    def offsets(self, times_s: Times) -> NDArray[np.float64]:
        """Distance (x, y) from the middle at each time, float64[n, 2]."""
        turns = times_s / self.period_s + self.phase
        if self.way == 0:
            along = 4 * np.abs(turns - np.floor(turns + 0.5)) - 1
            return along[:, None] * np.asarray(self.reach_px)
        angles = 2 * math.pi * turns
        return self.reach_px[0] * np.stack((np.cos(angles), self.way * np.sin(angles)), axis=1)


@dataclass(frozen=True, slots=True)
class SceneObject:
    """One object, its path, and what happens to it.

    Attributes:
        size: None for one that grows or shrinks.
        place: where one is that stays in one place (still, circling, growing, shrinking), else
            None.
        across_px: extent of the silhouette, before it grows or shrinks.
        start_px: centre (x, y) at time zero; the middle of the swing for one that has a swing.
        velocity_px_s: velocity (x, y) while it moves.
        rgb: the colour value drawn for ``colour``.
        growth_px_s: change of the extent while it moves.
        moves_s: from when until when it moves or grows; before and after it rests. None: always.
        swing: None for one that does not circle or bounce.
        appears_s: when it appears, None where it is there from the start.
        disappears_s: from when on it is gone, None where it stays.
        becomes: the colour that it changes to, or None.
        becomes_rgb: the colour value drawn for ``becomes``.
        changes_s: when it changes colour, or None.
    """

    colour: str
    shape: str
    size: str | None
    motion: str
    place: str | None
    across_px: float
    start_px: tuple[float, float]
    velocity_px_s: tuple[float, float]
    rgb: RGB
    growth_px_s: float = 0.0
    moves_s: tuple[float, float] | None = None
    swing: Swing | None = None
    appears_s: float | None = None
    disappears_s: float | None = None
    becomes: str | None = None
    becomes_rgb: RGB | None = None
    changes_s: float | None = None

    @property
    def rests(self) -> bool:
        """Whether it looks the same at every time, but for its colour."""
        return self.velocity_px_s == (0.0, 0.0) and self.swing is None and not self.growth_px_s

    def centres(self, times_s: Times) -> NDArray[np.float64]:
        """Centre (x, y) in pixels at each time, float64[n, 2]."""
        moved_s = self._moved_s(times_s)
        centres = np.asarray(self.start_px) + moved_s[:, None] * np.asarray(self.velocity_px_s)
        return centres if self.swing is None else centres + self.swing.offsets(times_s)

    def extents(self, times_s: Times) -> NDArray[np.float64]:
        """Extent in pixels at each time, float64[n]."""
        return self.across_px + self.growth_px_s * self._moved_s(times_s)

    def there(self, times_s: Times) -> NDArray[np.bool_]:
        """Whether it can be seen at each time, bool[n]."""
        first, last = self.life(math.inf)
        return (times_s >= first) & (times_s < last)

    def life(self, duration_s: float) -> tuple[float, float]:
        """From when until when it can be seen in a clip of this length, in seconds."""
        first = 0.0 if self.appears_s is None else self.appears_s
        return first, duration_s if self.disappears_s is None else self.disappears_s

    def changed(self, times_s: Times) -> NDArray[np.bool_]:
        """Whether it has its new colour at each time, bool[n]."""
        return times_s >= (math.inf if self.changes_s is None else self.changes_s)

    def _moved_s(self, times_s: Times) -> NDArray[np.float64]:
        if self.moves_s is None:
            return times_s
        return np.clip(times_s, *self.moves_s) - self.moves_s[0]


@dataclass(frozen=True, slots=True)
class Scene:
    """One clip: everything that is true of it.

    Attributes:
        seed: the seed it was drawn from.
        size: (width, height) in pixels.
        objects: in the order in which captions name them: by the time at which they are first
            seen, then from left to right at that time.
    """

    seed: int
    size: tuple[int, int]
    duration_s: float
    background: Background
    objects: tuple[SceneObject, ...]
