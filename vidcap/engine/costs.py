"""What drafting and verifying take, learnt from the calls of a running decoder.

A target call takes a fixed time and more for every row. On a CPU rows also come in blocks: the
flash kernel takes 32 query rows at once, which are those of 32 tokens or, where several heads share
a key, of fewer, and a block that has just begun takes nearly as long as a full one. So the time is
fitted by a line and a saw tooth: how much of the last block is empty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

#: Calls that count at most.
_MEMORY = 150.0
#: Share of one target call that every further row is taken to cost before two widths were seen.
_ROW_SHARE = 0.02
#: How many drafts' time a target call takes, before the draft's was seen.
_TIMES_FASTER = 6.0
#: Share of the newest call in a running estimate, and what it counts at most, in estimates so far.
_NEWEST, _MOST = 0.2, 3.0
#: How much a single slow call can raise such an estimate.
_SLOWEST = 1 + _NEWEST * (_MOST - 1)
#: Calls that speak for blocks costing nothing, before any was seen.
_BLOCK_PRIOR = 3.0
#: Variance of the empty part of a block where all fillings come equally often.
_EMPTY_VARIANCE = 1 / 12


@dataclass(slots=True)
class _Fit:
    """Least squares of seconds y by rows x and by the empty part z of the last block.

    Nothing is taken to be negative: not the slopes, and not the fixed part of a call, or few rows
    would seem to take no time where rows cost the more the more they are.

    Attributes:
        count, x, y, z, xx, xy, xz, yz, zz: weighted sums over the calls.
    """

    count: float = 0.0
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    xz: float = 0.0
    yz: float = 0.0
    zz: float = 0.0

    def observe(self, x: float, z: float, y: float) -> None:
        """Note a call."""
        terms = {"count": 1.0, "x": x, "y": y, "z": z}
        terms |= {"xx": x * x, "xy": x * y, "xz": x * z, "yz": y * z, "zz": z * z}
        for name, term in terms.items():
            setattr(self, name, getattr(self, name) * (1 - 1 / _MEMORY) + term)

    def value(self, x: float, z: float) -> float:
        """Expected seconds."""
        per_row, per_block = self.slopes()
        count = self.count
        return self.y / count + per_row * (x - self.x / count) + per_block * (z - self.z / count)

    def slopes(self) -> tuple[float, float]:
        """Seconds of a further row, and of a block that is empty."""
        count = self.count
        x, y, z = self.x / count, self.y / count, self.z / count
        xx, xy = self.xx / count - x * x, self.xy / count - x * y
        if xx < 1:  # calls of one width: nothing is known about others yet
            return y * _ROW_SHARE / (1 + _ROW_SHARE * (x - 1)), 0.0
        xz, yz = self.xz / count - x * z, self.yz / count - y * z
        zz = self.zz / count - z * z + _BLOCK_PRIOR * _EMPTY_VARIANCE / count
        # The slope of what is left of y and z once their lines through the rows are taken away.
        per_block = max(0.0, (yz - xy * xz / xx) / (zz - xz * xz / xx))
        per_row = max(0.0, (xy - per_block * xz) / xx)
        varying = per_row * x + per_block * z
        share = min(1.0, y / varying) if varying else 1.0
        return per_row * share, per_block * share


@dataclass(slots=True)
class CostTable:
    """Seconds of a draft forward and of target calls by number of rows.

    Newer calls weigh more. The very first call of each kind is left out: it pays for kernels and
    memory that later ones find ready.

    Attributes:
        block: rows of a target call that its kernels take as one piece, which may be a fraction;
            0 where they do not.
        draft_s, plain_s: of a draft forward, and of a target call over one row; None before the
            first.
    """

    block: float = 0.0
    draft_s: float | None = None
    plain_s: float | None = None
    _fit: _Fit = field(default_factory=_Fit)
    _calls: list[str] = field(default_factory=list)

    def emptied(self) -> CostTable:
        """A table for calls of another length, which has seen the first ones."""
        return CostTable(self.block, _calls=self._calls)

    def observe_draft(self, calls: int, seconds: float) -> None:
        """Note a round's draft forwards."""
        if calls and self._warm("draft"):
            self.draft_s = _follow(self.draft_s, seconds / calls)

    def observe_verify(self, rows: int, seconds: float) -> None:
        """Note one target call."""
        if not self._warm("verify"):
            return
        if rows == 1:
            self.plain_s = _follow(self.plain_s, seconds)
        if self._fit.count:
            seconds = min(seconds, 3 * self.verify(rows))  # a single slow call upsets nothing
        self._fit.observe(rows, self._empty(rows), seconds)

    def verify(self, rows: int) -> float:
        """Expected seconds of a target call over `rows` rows; 0 before anything was seen."""
        return self._fit.value(rows, self._empty(rows)) if self._fit.count else 0.0

    def plain(self) -> float:
        """Expected seconds of a target call over one row.

        Such calls are rare while drafting pays, so one that was slow would count for long: what the
        wider calls say of one row counts where it is less, as far as one slow call can explain it.
        """
        if self.plain_s is None:
            return self.verify(1)
        return min(self.plain_s, max(self.verify(1), self.plain_s / _SLOWEST))

    def row(self) -> float:
        """Seconds of a further row, its share of a block included."""
        return self._fit.slopes()[0] if self._fit.count else 0.0

    def draft(self) -> float:
        """Expected seconds of a draft forward."""
        return self.plain() / _TIMES_FASTER if self.draft_s is None else self.draft_s

    def _empty(self, rows: int) -> float:
        """How much of the last block is empty, 0 up to 1; a first block costs what it costs."""
        if not self.block or rows <= self.block:
            return 0.0
        return math.ceil(rows / self.block) - rows / self.block

    def _warm(self, kind: str) -> bool:
        if kind in self._calls:
            return True
        self._calls.append(kind)
        return False


def _follow(old: float | None, new: float) -> float:
    """A running estimate that a single slow call does not upset."""
    if old is None:
        return new
    return old + _NEWEST * (min(new, _MOST * old) - old)
