"""Drafts as much as pays, which may be nothing."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.adaptive import AdaptiveDrafter
from vidcap.engine.draft.base import catch_up
from vidcap.engine.logits import LogitsStack
from vidcap.engine.policy import AUTO_WIDTH, Policy
from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.stats import Stats
from vidcap.engine.tree import ROOT_ONLY


class AutoDrafter:
    """An adaptive drafter that a :class:`vidcap.engine.policy.Policy` may switch off.

    Where the policy starts an answer without it, the draft model reads the prompt in the first
    round that drafts, if there is one.
    """

    def __init__(
        self,
        context: int,
        decoder: Decoder | None,
        late: Callable[[], Decoder],
        policy: Policy,
        stack: LogitsStack,
        stats: Stats,
        width: int = AUTO_WIDTH,
    ):
        """Args:
        context: tokens of the prompt.
        decoder: the draft model behind the prompt, None where it has not read it.
        late: makes that decoder inside a round; its time is ``draft_prefill`` of the statistics.
        policy: decides, and learns from every round.
        stack: the request's logits stack, shared with the target.
        stats: where the loop notes what a round cost.
        width: see :class:`AdaptiveDrafter`.
        """
        self._late = late
        self._policy = policy
        self._stack = stack
        self._stats = stats
        self._width = width
        self._model: AdaptiveDrafter | None = None
        self._text: list[int] = []
        self._drafted = False
        self._behind = False
        policy.begin(context)
        if decoder is not None:
            self._model = AdaptiveDrafter(decoder, policy, stack, width)
            policy.observe_prefill(stats.seconds["draft_prefill"], late=False)

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._drafted = self._policy.drafts(ready=self._model is not None)
        if not self._drafted:
            return Proposal(ROOT_ONLY.with_tokens(root))
        return self._started(root).propose(root)

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        cost, costs = self._stats.last_round, self._policy.costs
        if cost is not None:
            costs.observe_verify(cost.rows, cost.verify_s)
        if not self._drafted or self._model is None:
            self.skip(proposal.tree.tokens[:, :1], accepted)
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
        if self._model is not None:
            self._model.skip(root, accepted)
        else:
            self._text += [*root[0].tolist(), *accepted.tokens[:-1]]

    def _started(self, root: Tensor) -> AdaptiveDrafter:
        if self._model is None:
            before = self._stats.seconds["draft_prefill"]
            self._model = AdaptiveDrafter(self._late(), self._policy, self._stack, self._width)
            seconds = self._stats.seconds["draft_prefill"] - before
            self._policy.observe_prefill(seconds, late=True)
            catch_up(self._model, self._text, root)
        return self._model
