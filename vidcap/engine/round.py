"""What a drafter and a verifier hand to each other in a round."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from vidcap.engine.tree import Tree


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


@dataclass(frozen=True, slots=True)
class Accepted:
    """A verdict on the host, for one row of the batch.

    Attributes:
        nodes: accepted tree nodes from the root on; the root is always there.
        tokens: tokens new to the output: the accepted drafts, then the target's own next token.
        loosened: where in `tokens` the drafts are that are not the target's choice.
    """

    nodes: tuple[int, ...]
    tokens: tuple[int, ...]
    loosened: tuple[int, ...] = ()
