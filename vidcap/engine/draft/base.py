"""The drafter's side of a round."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.tree import ROOT_ONLY


class Drafter(Protocol):
    """Proposes continuations of the committed text."""

    def propose(self, root: Tensor) -> Proposal:
        """Draft behind `root` (Long[b, 1]), the newest committed token."""
        ...

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """Learn what became of the proposal."""
        ...

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """Learn of a round behind `root` that was decided without a proposal of this drafter."""
        ...


class NoDraft:
    """Proposes nothing: plain decoding, one token per target call."""

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`Drafter`."""
        return Proposal(ROOT_ONLY.with_tokens(root))

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """Nothing to keep."""

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """Nothing to keep."""
