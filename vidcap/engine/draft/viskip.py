"""Drafting is left out where the target is looking at the video (ViSkip, MMSpec, arXiv 2603.14989).

A token that the target reads off the video is what a draft guesses worst. The published rule skips
a round when the last accepted token put at least 0.35 of its attention in the last layer on visual
tokens. Here the share comes from log-sum-exps that the split attention has at hand, and the
decision falls before anything is drafted.
"""

from __future__ import annotations

from torch import Tensor

from vidcap.engine.draft.base import Drafter
from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.stats import Stats
from vidcap.engine.tree import ROOT_ONLY


class ViSkip:
    """Wraps any drafter."""

    def __init__(self, drafter: Drafter, stats: Stats, threshold: float):
        """Args:
        drafter: drafts where the target is not looking.
        stats: where the loop notes the visual mass of the last accepted token.
        threshold: mass from which a round is left out.
        """
        self._drafter = drafter
        self._stats = stats
        self._threshold = threshold
        self._skipped = False

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        mass = self._stats.visual_mass
        self._skipped = mass is not None and mass >= self._threshold
        if self._skipped:
            self._stats.skipped += 1
            return Proposal(ROOT_ONLY.with_tokens(root))
        return self._drafter.propose(root)

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        if self._skipped:
            self._drafter.skip(proposal.tree.tokens, accepted)
        else:
            self._drafter.commit(proposal, accepted)

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._drafter.skip(root, accepted)
