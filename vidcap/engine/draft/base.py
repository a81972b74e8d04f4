"""The drafter's side of a round."""

from __future__ import annotations

from collections.abc import Sequence
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


def catch_up(drafter: Drafter, text: Sequence[int], root: Tensor) -> None:
    """Tell a drafter that starts late about the committed text.

    Args:
        drafter: has seen the question.
        text: tokens between question and root, none where the drafter starts in time.
        root: Long[b, 1] the newest committed token.
    """
    if text:
        missed = (*text[1:], int(root[0, 0]))
        drafter.skip(root.new_tensor([text[:1]]), Accepted((0,), missed))


class NoDraft:
    """Proposes nothing: plain decoding, one token per target call."""

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`Drafter`."""
        return Proposal(ROOT_ONLY.with_tokens(root))

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """Nothing to keep."""

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """Nothing to keep."""
