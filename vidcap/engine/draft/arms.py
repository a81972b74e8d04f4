"""Several drafts that take turns, weighted by how often each was right lately.

The idea of TABED (arXiv 2601.20357): what a draft should look at, the video, a part of it, or only
the text, is decided while the answer is being written. TABED runs all inputs as one batch and mixes
their distributions; here one arm drafts each round, so that an arm which is never better costs
nothing, not even its prefill. The choice depends on tokens alone, never on the clock or on chance,
so a seed repeats a text, and whatever is drafted is verified as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from vidcap.engine.draft.base import Drafter, catch_up
from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.stats import Stats

#: What a round counts for when the next one has passed.
_KEEP = 0.9
#: Tokens that every arm is taken to have got right and wrong before it was tried.
_PRIOR_HITS, _PRIOR_MISSES = 3.0, 1.0


@dataclass(slots=True)
class HitRate:
    """How often an arm's next token was the target's, newer rounds weighing more.

    An arm that was not tried for a while is thought of as before it was tried at all: right three
    times in four. So it gets another turn when the others do worse than that.
    """

    hits: float = 0.0
    misses: float = 0.0

    def fade(self) -> None:
        """A round has passed."""
        self.hits *= _KEEP
        self.misses *= _KEEP

    def observe(self, hits: int, missed: bool) -> None:
        """Note tokens that were right, and whether a wrong one followed."""
        self.hits += hits
        self.misses += missed

    def expected(self, length: int) -> float:
        """Tokens of a draft of this length that can be expected to be right."""
        seen = self.hits + self.misses + _PRIOR_HITS + _PRIOR_MISSES
        rate = (self.hits + _PRIOR_HITS) / seen
        return sum(rate**depth for depth in range(1, length + 1))


@dataclass(slots=True)
class Arm:
    """One of the drafts.

    Attributes:
        name: for the statistics.
        make: its drafter behind the question, called when it gets its first turn.
        depth: longest path that it drafts.
        free: whether it costs no model call, so that it may propose without having the turn.
    """

    name: str
    make: Callable[[], Drafter]
    depth: int
    free: bool = False
    rate: HitRate = field(default_factory=HitRate)
    drafter: Drafter | None = None
    proposal: Proposal | None = None


class ArmsDrafter:
    """Gives each round to the arm that promises most; of equal ones the earlier."""

    def __init__(self, arms: Sequence[Arm], stats: Stats):
        """Args:
        arms: at least one that is not free.
        stats: told whose turn it was.
        """
        self._arms = list(arms)
        self._stats = stats
        self._text: list[int] = []
        self._turn: Arm | None = None

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        for arm in self._arms:
            if arm.free:
                arm.proposal = self._drafter(arm, root).propose(root)
        self._turn = arm = max(self._arms, key=_promise)
        if arm.proposal is None:
            arm.proposal = self._drafter(arm, root).propose(root)
        self._stats.arm_rounds[arm.name] += 1
        return arm.proposal

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        for arm in self._arms:
            arm.rate.fade()
            if arm.proposal is not None:
                arm.rate.observe(*hits(arm.proposal, accepted))
        self._tell(proposal.tree.tokens[:, :1], accepted)

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._turn = None
        self._tell(root, accepted)

    def _tell(self, root: Tensor, accepted: Accepted) -> None:
        """Let every arm that has started know what became of the round."""
        for arm in self._arms:
            proposal, arm.proposal = arm.proposal, None
            if arm.drafter is None:
                continue
            if arm is self._turn and proposal is not None:
                arm.drafter.commit(proposal, accepted)
            elif proposal is not None:
                # Proposed without having the turn: the tree that was verified is another one.
                arm.drafter.commit(proposal, Accepted((0,), accepted.tokens))
            else:
                arm.drafter.skip(root, accepted)
        self._text += [*root[0].tolist(), *accepted.tokens[:-1]]

    def _drafter(self, arm: Arm, root: Tensor) -> Drafter:
        if arm.drafter is None:
            arm.drafter = arm.make()
            catch_up(arm.drafter, self._text, root)
        return arm.drafter


def _promise(arm: Arm) -> float:
    length = arm.depth
    if arm.proposal is not None:
        length = int(arm.proposal.tree.depths.max())
    return arm.rate.expected(length)


def hits(proposal: Proposal, accepted: Accepted) -> tuple[int, bool]:
    """How far a proposal says what the target wrote, and whether it says something else then."""
    tree = proposal.tree
    parents, tokens = tree.parents[0].tolist(), tree.tokens[0].tolist()
    node, count = 0, 0
    for token in accepted.tokens:
        below = [child for child, parent in enumerate(parents) if parent == node]
        if not below:
            return count, False
        right = next((child for child in below if tokens[child] == token), None)
        if right is None:
            return count, True
        node, count = right, count + 1
    return count, False
