"""Drafts as much as pays, which may be nothing."""

from __future__ import annotations

from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.adaptive import AdaptiveDrafter
from vidcap.engine.logits import LogitsStack
from vidcap.engine.policy import Policy
from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.stats import Stats
from vidcap.engine.tree import ROOT_ONLY


class AutoDrafter:
    """An adaptive drafter that a :class:`vidcap.engine.policy.Policy` may switch off."""

    def __init__(self, decoder: Decoder, policy: Policy, stack: LogitsStack, stats: Stats):
        """Args:
        decoder: the draft model behind the prompt.
        policy: decides, and learns from every round.
        stack: the request's logits stack, shared with the target.
        stats: where the loop notes what a round cost.
        """
        self._policy = policy
        self._stats = stats
        self._model = AdaptiveDrafter(decoder, policy, stack)
        self._drafted = False
        self._behind = False
        policy.begin(decoder.prefix.length + decoder.kv.length)

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._drafted = self._policy.drafts()
        if not self._drafted:
            return Proposal(ROOT_ONLY.with_tokens(root))
        return self._model.propose(root)

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        cost, costs = self._stats.last_round, self._policy.costs
        if cost is not None:
            costs.observe_verify(cost.rows, cost.verify_s)
        if not self._drafted:
            self._model.skip(proposal.tree.tokens[:, :1], accepted)
            self._behind = True
            return
        # A round that had to catch up on tokens decoded without the draft says nothing about it.
        if cost is not None and not self._behind:
            costs.observe_draft(proposal.calls, cost.draft_s)
            seconds = cost.draft_s + cost.verify_s
            self._policy.observe(len(accepted.tokens), seconds, self._model.seen(accepted))
        self._behind = False
        self._model.commit(proposal, accepted)

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._behind = True
        self._model.skip(root, accepted)
