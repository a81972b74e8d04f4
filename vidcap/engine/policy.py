"""What to draft next, from measured costs and measured acceptance.

A round costs the draft's forwards, one per level of the tree, and one target call over all nodes.
It yields one token plus the drafts that are accepted. How many those are follows from one small
table: how often the target's next token was the draft's first, second, third ... choice. The policy
keeps that table and the costs as they are seen, and takes the tree with the most expected tokens
per second; the lone root, plain decoding, is one of the candidates. (Trees by rank probabilities:
Sequoia, arXiv 2402.12374; here depth and size are weighed by measured time.)
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from vidcap.engine.tree import ROOT_ONLY, TreeShape

#: Ranks that are told apart; a token further down counts as a miss.
RANKS = 4

_SIZES = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 25)
_DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10)


@dataclass(slots=True)
class RankTable:
    """How often the target's token is the draft's n-th choice, newer rounds weighing more.

    Attributes:
        hits: weighted counts per rank, misses in the last entry.
        memory: how many observations back the weight has fallen to 1/e.
    """

    hits: list[float] = field(default_factory=lambda: [2.0, 0.4, 0.15, 0.1, 0.35])
    memory: float = 120.0

    def observe(self, rank: int | None) -> None:
        """Note the rank of one target token, None for a miss."""
        keep = 1.0 - 1.0 / self.memory
        self.hits = [count * keep for count in self.hits]
        self.hits[RANKS if rank is None or rank >= RANKS else rank] += 1.0

    @property
    def shares(self) -> tuple[float, ...]:
        """Probability of each rank."""
        total = sum(self.hits)
        return tuple(count / total for count in self.hits[:RANKS])


@dataclass(slots=True)
class CostTable:
    """Seconds of a draft forward and of target calls by number of rows.

    Between the widths that were seen the cost is interpolated; beyond them the nearest slope holds.
    """

    draft_s: float | None = None
    verify_s: dict[int, float] = field(default_factory=dict)

    def observe_draft(self, calls: int, seconds: float) -> None:
        """Note a round's draft forwards."""
        if calls:
            self.draft_s = _follow(self.draft_s, seconds / calls)

    def observe_verify(self, rows: int, seconds: float) -> None:
        """Note one target call."""
        self.verify_s[rows] = _follow(self.verify_s.get(rows), seconds)

    def verify(self, rows: int) -> float:
        """Expected seconds of a target call over `rows` rows; 0 before anything was seen."""
        seen = sorted(self.verify_s)
        if not seen:
            return 0.0
        if len(seen) == 1 or rows <= seen[0]:
            return self.verify_s[seen[0]]
        upper = next((index for index, width in enumerate(seen) if width >= rows), len(seen) - 1)
        low, high = seen[max(0, upper - 1)], seen[max(1, upper)]
        slope = max(0.0, (self.verify_s[high] - self.verify_s[low]) / (high - low))
        return self.verify_s[low] + slope * (rows - low)


def _follow(old: float | None, new: float) -> float:
    """A running estimate that a single slow call does not upset."""
    if old is None:
        return new
    return old + 0.2 * (min(new, 3 * old) - old)


def expected_drafts(shape: TreeShape, shares: Sequence[float]) -> float:
    """Accepted drafts per round that a tree can expect."""
    reach = [1.0] * shape.size
    for node in range(1, shape.size):
        rank = shape.ranks[node]
        reach[node] = reach[shape.parents[node]] * (shares[rank] if rank < len(shares) else 0.0)
    return sum(reach[1:])


def best_tree(shares: Sequence[float], size: int, depth: int) -> TreeShape:
    """The tree of `size` drafted nodes and at most `depth` levels that expects the most accepted.

    Greedy by the probability of a path is optimal: a path is never more probable than its parent,
    nor than its elder sibling (the shares are taken as not increasing).
    """
    shares = list(accumulate(shares, min))
    paths: list[tuple[int, ...]] = []
    heap: list[tuple[float, tuple[int, ...]]] = [(-shares[0], (0,))]
    while heap and len(paths) < size:
        weight, path = heapq.heappop(heap)
        paths.append(path)
        if path[-1] + 1 < len(shares):
            sibling = weight / max(shares[path[-1]], 1e-9) * shares[path[-1] + 1]
            heapq.heappush(heap, (sibling, (*path[:-1], path[-1] + 1)))
        if len(path) < depth:
            heapq.heappush(heap, (weight * shares[0], (*path, 0)))
    return TreeShape.from_paths(paths)


@dataclass(slots=True)
class Policy:
    """Chooses the next round's tree; one per pair, so that what was learnt stays.

    Attributes:
        ranks, costs: what was seen so far.
        margin: how much better than plain decoding drafting must look.
        every: rounds between two reconsiderations.
        rest: plain rounds before drafting is tried again, doubled each time it loses.
    """

    ranks: RankTable = field(default_factory=RankTable)
    costs: CostTable = field(default_factory=CostTable)
    margin: float = 1.02
    every: int = 2
    rest: int = 32
    _shape: TreeShape = ROOT_ONLY
    _rounds: int = 0
    _resting: int = 0

    def choose(self) -> TreeShape:
        """The tree to draft in this round."""
        self._rounds += 1
        if self._rounds == 1:
            return ROOT_ONLY  # shows what a plain step costs
        if self._resting:
            self._resting -= 1
            if self._resting:
                return ROOT_ONLY
            self.rest *= 2
            self._shape = best_tree(self.ranks.shares, 2, 2)
            return self._shape
        if self._rounds % self.every == 0 or self._shape is ROOT_ONLY:
            self._shape = self._best()
            if self._shape is ROOT_ONLY:
                self._resting = self.rest
        return self._shape

    def observe(self, ranks: Iterable[int | None], calls: int, draft_s: float) -> None:
        """Note a round's ranks and draft time."""
        for rank in ranks:
            self.ranks.observe(rank)
        self.costs.observe_draft(calls, draft_s)

    @property
    def verdict(self) -> str | None:
        """Why nothing is drafted at the moment, None while something is."""
        if not self._resting:
            return None
        share = sum(self.ranks.shares)
        return f"drafting does not pay: {share:.0%} of the draft's choices are the target's"

    def tokens_per_s(self, shape: TreeShape) -> float:
        """Expected speed of rounds with this tree."""
        depth = max(shape.depths())
        draft_s = self.costs.draft_s or self.costs.verify(1) / 6
        seconds = depth * draft_s + self.costs.verify(shape.size)
        return (1 + expected_drafts(shape, self.ranks.shares)) / max(seconds, 1e-9)

    def _best(self) -> TreeShape:
        shares = self.ranks.shares
        candidates = {
            best_tree(shares, size, depth) for size in _SIZES for depth in _DEPTHS if depth <= size
        }
        best = max(candidates, key=self.tokens_per_s)
        plain = self.tokens_per_s(ROOT_ONLY)
        return best if self.tokens_per_s(best) > self.margin * plain else ROOT_ONLY
