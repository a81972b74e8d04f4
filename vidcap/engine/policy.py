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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from vidcap.engine.tree import ROOT_ONLY, TreeShape

#: Ranks that are told apart; a token further down counts as a miss.
RANKS = 4

#: Most drafted tokens of a round, and the depths that are compared.
LARGEST_AUTO_TREE = 25
_DEPTHS = (1, 2, 3, 4, 6, 8, 10)

_PLAIN_EVERY = 100
_FIRST_REST, _LONGEST_REST, _TRIAL = 32, 256, 3


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
    The very first call of each kind is left out: it pays for kernels and memory that later ones
    find ready.
    """

    draft_s: float | None = None
    verify_s: dict[int, float] = field(default_factory=dict)
    _calls: list[str] = field(default_factory=list)

    def observe_draft(self, calls: int, seconds: float) -> None:
        """Note a round's draft forwards."""
        if calls and self._warm("draft"):
            self.draft_s = _follow(self.draft_s, seconds / calls)

    def observe_verify(self, rows: int, seconds: float) -> None:
        """Note one target call."""
        if self._warm("verify"):
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

    def _warm(self, kind: str) -> bool:
        if kind in self._calls:
            return True
        self._calls.append(kind)
        return False


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


def likeliest_paths(shares: Sequence[float], depth: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Rank paths of at most `depth` ranks with their probabilities, the likeliest first.

    A path is never more probable than its parent or its elder sibling (the shares are taken as not
    increasing), so the first n paths always form a tree: the best one of n nodes.
    """
    shares = list(accumulate(shares, min))
    heap: list[tuple[float, tuple[int, ...]]] = [(-shares[0], (0,))]
    while heap:
        weight, path = heapq.heappop(heap)
        yield path, -weight
        if path[-1] + 1 < len(shares):
            sibling = weight / max(shares[path[-1]], 1e-9) * shares[path[-1] + 1]
            heapq.heappush(heap, (sibling, (*path[:-1], path[-1] + 1)))
        if len(path) < depth:
            heapq.heappush(heap, (weight * shares[0], (*path, 0)))


def best_tree(shares: Sequence[float], size: int, depth: int) -> TreeShape:
    """The tree of at most `size` drafted nodes and `depth` levels with the most to expect."""
    paths = [path for path, _ in _first(likeliest_paths(shares, depth), size)]
    return TreeShape.from_paths(paths)


def _first(
    paths: Iterator[tuple[tuple[int, ...], float]], count: int
) -> Iterator[tuple[tuple[int, ...], float]]:
    return (item for item, _ in zip(paths, range(count), strict=False))


@dataclass(slots=True)
class Policy:
    """Chooses the next round's tree; one per pair, so that what was learnt stays.

    Attributes:
        ranks, costs: what was seen so far.
        margin: how much better than plain decoding drafting must look.
    """

    ranks: RankTable = field(default_factory=RankTable)
    costs: CostTable = field(default_factory=CostTable)
    margin: float = 1.02
    _shape: TreeShape = ROOT_ONLY
    _round: int = 0
    _rest: int = _FIRST_REST
    _resting: int = 0
    _keep: int = 0
    _context: int = 0

    def begin(self, context: int) -> None:
        """A new answer starts behind `context` prompt tokens; costs of another length are void."""
        if not 0.8 < context / max(1, self._context) < 1.25:
            self.costs = CostTable(_calls=self.costs._calls)
            self._round = 0
        self._context = context

    def choose(self) -> TreeShape:
        """The tree to draft in this round."""
        self._round += 1
        if 1 not in self.costs.verify_s or self._round % _PLAIN_EVERY == 0:
            return ROOT_ONLY  # shows what a plain step costs
        if self._resting:
            self._resting -= 1
            if not self._resting:
                self._shape, self._keep = best_tree(self.ranks.shares, 2, 2), _TRIAL
            return ROOT_ONLY
        self._keep -= 1
        if self._shape is ROOT_ONLY or self._keep < 0:
            self._reconsider()
        return self._shape

    def observe(self, ranks: Iterable[int | None]) -> None:
        """Note where the target's tokens stood among the draft's choices."""
        for rank in ranks:
            self.ranks.observe(rank)

    @property
    def verdict(self) -> str | None:
        """Why nothing is drafted at the moment, None while something is."""
        # No figure of the rank table: after a few rounds it still holds what was assumed at first.
        return "drafting does not pay by measured cost and acceptance" if self._resting else None

    def tokens_per_s(self, depth: int, rows: int, accepted: float) -> float:
        """Expected speed of rounds with a tree of this depth, rows and accepted drafts."""
        draft_s = self.costs.draft_s or self.costs.verify(1) / 6
        return (1 + accepted) / max(depth * draft_s + self.costs.verify(rows), 1e-9)

    def _reconsider(self) -> None:
        self._shape = self._best()
        if self._shape is ROOT_ONLY:
            self._resting = self._rest
            self._rest = min(2 * self._rest, _LONGEST_REST)
            return
        self._rest = _FIRST_REST
        # At first there is much to learn, later little changes from round to round.
        self._keep = 1 if self._round <= 16 else 15

    def _best(self) -> TreeShape:
        shares = self.ranks.shares
        fastest, form = self.margin * self.tokens_per_s(0, 1, 0.0), (0, 0)
        for limit in _DEPTHS:
            accepted, depth = 0.0, 0
            for size, (path, chance) in enumerate(
                _first(likeliest_paths(shares, limit), LARGEST_AUTO_TREE), start=1
            ):
                accepted, depth = accepted + chance, max(depth, len(path))
                speed = self.tokens_per_s(depth, size + 1, accepted)
                if speed > fastest:
                    fastest, form = speed, (size, limit)
        return best_tree(shares, *form) if form[0] else ROOT_ONLY
