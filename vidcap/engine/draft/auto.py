"""Drafts as much as pays, which may be nothing."""

from __future__ import annotations

import time

from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.base import Proposal
from vidcap.engine.draft.choose import Chooser
from vidcap.engine.draft.pair import PairDrafter
from vidcap.engine.logits import LogitsStack
from vidcap.engine.policy import RANKS, Policy
from vidcap.engine.tree import ROOT_ONLY, TreeShape
from vidcap.engine.verify.base import Accepted


class AutoDrafter:
    """A pair drafter whose tree a :class:`vidcap.engine.policy.Policy` chooses every round."""

    def __init__(
        self, decoder: Decoder, policy: Policy, stack: LogitsStack, chooser: Chooser | None = None
    ):
        """Args:
        decoder: the draft model behind the prompt.
        policy: decides, and learns from every round.
        stack: the request's logits stack, shared with the target.
        chooser: picks tokens from scores; None for the likeliest ones.
        """
        self._policy = policy
        self._shape: TreeShape = ROOT_ONLY
        self._pair = PairDrafter(
            decoder, lambda scores: self._shape, stack, chooser, keep_ranks=RANKS
        )
        self._draft_s = 0.0
        self._proposed_at = 0.0

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        begin = time.perf_counter()
        self._shape = self._policy.choose()
        if self._shape is ROOT_ONLY:
            proposal = Proposal(ROOT_ONLY.with_tokens(root), calls=0)
        else:
            proposal = self._pair.propose(root)
        self._proposed_at = time.perf_counter()
        self._draft_s = self._proposed_at - begin
        return proposal

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._policy.costs.observe_verify(
            proposal.tree.size, time.perf_counter() - self._proposed_at
        )
        if self._shape is ROOT_ONLY:
            self._pair.skip(proposal.tree.tokens, accepted)
            return
        ranks = self._pair.observed_ranks(accepted)
        self._policy.observe(ranks, proposal.calls, self._draft_s)
        self._pair.commit(proposal, accepted)
