"""Drafts as much as pays, which may be nothing."""

from __future__ import annotations

from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.base import Proposal
from vidcap.engine.draft.choose import Chooser
from vidcap.engine.draft.pair import PairDrafter
from vidcap.engine.logits import LogitsStack
from vidcap.engine.policy import RANKS, Policy
from vidcap.engine.stats import Stats
from vidcap.engine.tree import ROOT_ONLY, TreeShape
from vidcap.engine.verify.base import Accepted


class AutoDrafter:
    """A pair drafter whose tree a :class:`vidcap.engine.policy.Policy` chooses every round."""

    def __init__(
        self,
        decoder: Decoder,
        policy: Policy,
        stack: LogitsStack,
        stats: Stats,
        chooser: Chooser | None = None,
    ):
        """Args:
        decoder: the draft model behind the prompt.
        policy: decides, and learns from every round.
        stack: the request's logits stack, shared with the target.
        stats: where the loop notes what a round cost.
        chooser: picks tokens from scores; None for the likeliest ones.
        """
        self._policy = policy
        self._stats = stats
        self._shape: TreeShape = ROOT_ONLY
        self._pair = PairDrafter(
            decoder, lambda scores: self._shape, stack, chooser, keep_ranks=RANKS
        )
        self._behind = False
        policy.begin(decoder.prefix.length + decoder.kv.length)

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._shape = self._policy.choose()
        if self._shape is ROOT_ONLY:
            return Proposal(ROOT_ONLY.with_tokens(root))
        return self._pair.propose(root)

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        cost, costs = self._stats.last_round, self._policy.costs
        if cost is not None:
            costs.observe_verify(cost.rows, cost.verify_s)
        if self._shape is ROOT_ONLY:
            self._pair.skip(proposal.tree.tokens[:, :1], accepted)
            self._behind = True
            return
        # A round that had to catch up on tokens decoded without the draft says nothing about it.
        if cost is not None and not self._behind:
            costs.observe_draft(proposal.calls, cost.draft_s)
        self._behind = False
        self._policy.observe(self._pair.observed_ranks(accepted))
        self._pair.commit(proposal, accepted)

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._behind = True
        self._pair.skip(root, accepted)
