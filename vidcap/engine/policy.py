"""How much to draft, from measured costs and measured acceptance.

A round yields one token plus the accepted drafts and costs the draft's forwards, one per level of
the tree, and one target call over all nodes. The most tokens per second come from a rule that
needs no table of shapes: at a pace of p tokens per second every second is worth p tokens, so a
further level or node is worth having where the tokens that it can be expected to bring are more
than p times the seconds that it takes. The pace follows from the rounds so far, and acting by the
rule can only raise it (Dinkelbach's method for ratios, Management Science 1967). What a node can be
expected to bring is the chance of its path, by the draft's own confidence and by how often tokens
of such a confidence turned out right (trees by the draft's confidence: EAGLE-2, arXiv 2406.16858).
Where the pace stays below that of plain decoding, nothing is drafted for a while.

A draft that lost does not even read the prompts of later answers. A trial there costs its vision
tower and prefill as well, so every plain round puts a small share of its time by, and a trial has
to wait until that pays for it.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vidcap.engine.costs import CostTable

#: Most drafted tokens of a round, most levels, and most nodes of a level that the draft runs.
LARGEST_AUTO_TREE, DEEPEST_AUTO_TREE, AUTO_WIDTH = 25, 12, 3

#: Confidences between which tokens are counted together.
_BINS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.995)
#: Observations that a bin's middle counts for before anything was seen, and at most kept.
_PRIOR, _MEMORY = 3.0, 150.0

#: One round in so many is decoded plainly, so that the price of a plain step stays known.
_PLAIN_EVERY = 128
#: Rounds before the first judgement, before one after a rest, and over which the pace is followed.
_TRIAL, _RETRIAL, _PACE_MEMORY = 5, 2, 24
#: Plain rounds after drafting lost, doubled up to the second number each time it loses again.
_FIRST_REST, _LONGEST_REST = 40, 640
#: Share of plain decoding that trials of a draft that lost may cost in the long run.
_TRIAL_SHARE = 0.015


@dataclass(slots=True)
class HitTable:
    """How often a drafted token of some confidence is the target's, newer ones weighing more.

    Attributes:
        hits, counts: weighted, per bin of the draft's probability.
    """

    hits: list[float] = field(default_factory=lambda: [0.0] * (len(_BINS) + 1))
    counts: list[float] = field(default_factory=lambda: [0.0] * (len(_BINS) + 1))

    def observe(self, prob: float, hit: bool) -> None:
        """Note a token to which the draft gave the probability `prob`."""
        at = bisect(_BINS, prob)
        keep = 1 - 1 / _MEMORY
        self.hits[at] = self.hits[at] * keep + hit
        self.counts[at] = self.counts[at] * keep + 1

    def chance(self, prob: float) -> float:
        """How likely a token of this probability is the target's."""
        at = bisect(_BINS, prob)
        return (self.hits[at] + _PRIOR * prob) / (self.counts[at] + _PRIOR)


@dataclass(slots=True)
class Pace:
    """Tokens per second of the rounds so far, newer ones weighing more."""

    tokens: float = 0.0
    seconds: float = 0.0
    rounds: int = 0

    def observe(self, tokens: int, seconds: float) -> None:
        """Note a round."""
        keep = 1 - 1 / _PACE_MEMORY
        self.tokens, self.seconds = self.tokens * keep + tokens, self.seconds * keep + seconds
        self.rounds += 1

    @property
    def rate(self) -> float:
        """Tokens per second, 0 before the first round."""
        return self.tokens / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class Policy:
    """Decides round by round, level by level; one per pair, so that what was learnt stays.

    Attributes:
        hits, costs, pace: what was seen so far.
        margin: how much faster than plain decoding drafting must be.
    """

    hits: HitTable = field(default_factory=HitTable)
    costs: CostTable = field(default_factory=CostTable)
    pace: Pace = field(default_factory=Pace)
    margin: float = 1.02
    _round: int = 0
    _rest: int = _FIRST_REST
    _resting: int = 0
    _lost: bool = False
    _context: int = 0
    _saved_s: float = 0.0
    _prefill_s_per_token: float = 0.0

    def begin(self, context: int) -> None:
        """A new answer starts behind `context` prompt tokens; costs of another length are void."""
        if not 0.8 < context / max(1, self._context) < 1.25:
            self.costs = self.costs.emptied()
            self.pace, self._round = Pace(), 0
        self._context = context

    @property
    def losing(self) -> bool:
        """Whether drafting lost when it was last tried, so that answers start without it."""
        return self._lost

    def drafts(self, *, ready: bool = True) -> bool:
        """Whether to draft in this round.

        Args:
            ready: whether the draft has read the prompt; otherwise it has to do that first.
        """
        self._round += 1
        drafts = self._pays_to_draft(ready)
        if self._lost and not drafts:
            self._saved_s += _TRIAL_SHARE * self.costs.plain()
        return drafts

    def _pays_to_draft(self, ready: bool) -> bool:
        if self.costs.plain_s is None or self._round % _PLAIN_EVERY == 0:
            return False  # shows what a plain step costs
        if self._resting:
            self._resting -= 1
            return False
        return ready or not self._lost or self._saved_s >= self._prefill_s

    @property
    def _prefill_s(self) -> float:
        """What it can be expected to take the draft to read the prompt."""
        return self._prefill_s_per_token * self._context

    def observe_prefill(self, seconds: float, *, late: bool) -> None:
        """Note what it took the draft to read the prompt.

        Args:
            seconds: vision tower included, where that ran for it.
            late: it did so for a trial.
        """
        self._prefill_s_per_token = seconds / max(1, self._context)
        if late:
            self._saved_s -= seconds

    def expands(self, chances: Sequence[float]) -> bool:
        """Whether a draft forward over nodes with these chances pays.

        What it brings is taken to be what continuations of the draft brought so far: some token
        below each of the nodes is right about as often as a confident one, and takes a row.
        """
        follows, price = self.hits.chance(0.85), self._worth * self.costs.row()
        gain = sum(max(0.0, chance * follows - price) for chance in chances)
        return gain > self._worth * self.costs.draft()

    @property
    def least_chance(self) -> float:
        """The chance from which a node is worth a row of the target call, at its mean price."""
        return min(0.5, self._worth * self.costs.row())

    def worthy(self, chances: Sequence[float]) -> int:
        """How many of these nodes are worth the time of a target call over them and the root.

        Args:
            chances: of at least one node, the likeliest first.
        """
        worth, gain, best, count = self._worth, 0.0, -math.inf, 1
        for size, chance in enumerate(chances, start=1):
            gain += chance
            left = gain - worth * self.costs.verify(1 + size)
            if left > best:
                best, count = left, size
        return count

    def observe(self, tokens: int, seconds: float, seen: Iterable[tuple[float, bool]]) -> None:
        """Note a round that drafted: what it brought, and which confidences were right."""
        for prob, hit in seen:
            self.hits.observe(prob, hit)
        self.pace.observe(tokens, seconds)
        if self.pace.rounds < (_RETRIAL if self._lost else _TRIAL):
            return
        again = self._lost
        self._lost = self.pace.rate < self.margin * self._plain
        if self._lost:
            if again:
                self._saved_s -= max(0.0, self.pace.seconds - self.pace.tokens / self._plain)
            self._resting, self._rest = self._rest, min(2 * self._rest, _LONGEST_REST)
            self.pace = Pace()
        elif self.pace.rounds >= 2 * _TRIAL:
            self._rest = _FIRST_REST

    @property
    def verdict(self) -> str | None:
        """Why nothing is drafted but trials, None where drafting pays."""
        return "drafting does not pay by measured cost and acceptance" if self._lost else None

    @property
    def _plain(self) -> float:
        """Tokens per second of plain decoding."""
        return 1 / max(self.costs.plain(), 1e-9)

    @property
    def _worth(self) -> float:
        """Tokens that a second is worth."""
        return max(self._plain, self.pace.rate)
