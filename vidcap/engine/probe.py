"""What a forward pass can be asked to hand over besides its last hidden states.

Drafters, scorers and verifiers declare what they need as a :class:`Needs`; the engine joins the
declarations and puts one :class:`Probe` into the step. Nothing is computed that nobody asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Needs:
    """Attributes:
    layer_inputs: decoder layers whose input states are wanted (0 is the embedding).
    visual_inputs: the same, but the rows of visual tokens alone.
    visual_attention: whether the attention of the question's rows to the visual tokens is wanted.
    """

    layer_inputs: frozenset[int] = frozenset()
    visual_inputs: frozenset[int] = frozenset()
    visual_attention: bool = False


@dataclass(slots=True)
class Probe:
    """Collects during one forward pass.

    Attributes:
        needs: what to collect.
        columns: Long[m] prefix columns of the visual tokens.
        layer_inputs: per wanted layer its input states [b, n, d], or [b, m, d] of visual tokens.
        attention: [b, m] float32, softmax weight from the pass's rows to each visual token, summed
            over rows and heads and over the layers seen so far.
        heads_seen: number of (layer, head, row) triples in that sum.
    """

    needs: Needs
    columns: Tensor
    layer_inputs: dict[int, Tensor] = field(default_factory=dict)
    attention: Tensor | None = None
    heads_seen: int = 0

    def keep_input(self, layer: int, states: Tensor) -> None:
        """Keep the states [b, n, d] that enter a layer, as far as they are wanted."""
        if layer not in self.needs.layer_inputs:
            states = states.index_select(1, self.columns)
        self.layer_inputs[layer] = states

    def add_attention(self, query: Tensor, key: Tensor, scale: float, lse: Tensor) -> None:
        """Add one layer's weights from query rows to visual tokens.

        The weights are recomputed for these rows and columns alone, normalised by the log-sum-exp
        over all keys, so that no full attention matrix ever exists.

        Args:
            query: [b, kv_heads, rows, d] with the grouped heads stacked as rows.
            key: [b, kv_heads, P, d] the prefix.
            lse: [b, kv_heads, rows] over all keys, tail included.
        """
        batch, kv_heads, rows, _ = query.shape
        total = query.new_zeros(batch, len(self.columns), dtype=torch.float32)
        for head in range(kv_heads):
            scores = torch.matmul(query[:, head] * scale, key[:, head].transpose(-1, -2)).float()
            weights = torch.exp(scores - lse[:, head, :, None]).sum(1)
            total += weights.index_select(1, self.columns)
        self.attention = total if self.attention is None else self.attention + total
        self.heads_seen += kv_heads * rows

    def mean_attention(self) -> Tensor:
        """[b, m] mean over layers, heads and rows.

        Raises:
            ValueError: when no attention was collected.
        """
        if self.attention is None:
            raise ValueError("no attention was collected")
        return self.attention / self.heads_seen
