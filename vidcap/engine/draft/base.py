"""The drafter's side of a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from vidcap.engine.tree import ROOT_ONLY, Tree
from vidcap.engine.verify.base import Accepted


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a drafter hands to the target.

    Attributes:
        tree: the drafted tree; the root alone when nothing is drafted.
        probs: float32 [b, n, V] the draft's distribution behind each node, None for drafts that
            were chosen and not sampled.
        chosen_from: first node that was chosen although others were drawn; such nodes come last.
        calls: forward passes of the drafting model that it took.
    """

    tree: Tree
    probs: Tensor | None = None
    chosen_from: int | None = None
    calls: int = 0

    def distribution(self, node: int) -> Tensor | None:
        """[V] what the children of a node were drawn from, None where they were chosen."""
        if self.probs is None or node >= self.probs.shape[1]:
            return None
        return self.probs[0, node]

    def drawn(self, node: int) -> bool:
        """Whether a node's token was drawn from `probs`, not chosen."""
        return self.probs is not None and (self.chosen_from is None or node < self.chosen_from)

    @property
    def drafted(self) -> int:
        """Number of drafted tokens per row."""
        return self.tree.size - 1


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
