"""What a forward pass can be asked to hand over besides its last hidden states.

Drafters, scorers and verifiers declare what they need as a :class:`Needs`; the engine joins the
declarations and puts one :class:`Probe` into the step. Nothing is computed that nobody asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from vidcap.engine.shards import Shards


@dataclass(frozen=True, slots=True)
class Needs:
    """Attributes:
    layer_inputs: decoder layers whose input states are wanted (0 is the embedding).
    visual_inputs: the same, but the rows of visual tokens alone.
    visual_attention: whether the attention of the question's rows to the visual tokens is wanted.
    visual_mass: whether each row's whole attention to visual tokens in the last layer is wanted.
    visual_output: whether the last hidden states of the visual tokens are wanted.
    """

    layer_inputs: frozenset[int] = frozenset()
    visual_inputs: frozenset[int] = frozenset()
    visual_attention: bool = False
    visual_mass: bool = False
    visual_output: bool = False


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
        mass: [b, kv_heads, group * n] float32, share of each row's last-layer attention on visual
            tokens, head by head.
        text_columns: Long[P - m] the other columns, for `mass`.
        visual_output: [b, m, d] last hidden states of the visual tokens, after the final norm.
        question: collects from the rows behind the prefix, where one pass runs both; its wanted
            layers are those of this probe.
        prefix_rows: how many rows that prefix has.
    """

    needs: Needs
    columns: Tensor
    layer_inputs: dict[int, Tensor] = field(default_factory=dict)
    attention: Tensor | None = None
    heads_seen: int = 0
    mass: Tensor | None = None
    text_columns: Tensor | None = None
    visual_output: Tensor | None = None
    question: Probe | None = None
    prefix_rows: int = 0

    def keep_input(self, layer: int, states: Tensor) -> None:
        """Keep the states [b, n, d] that enter a layer, as far as they are wanted."""
        if self.question is not None:
            # A copy, or the few rows would keep the states of the whole prompt alive.
            self.question.keep_input(layer, states[:, self.prefix_rows :].clone())
            states = states[:, : self.prefix_rows]
        if layer not in self.needs.layer_inputs:
            states = states.index_select(1, self.columns.to(states.device))
        # What the layers of several devices hand over is used together.
        self.layer_inputs[layer] = states.to(self.columns.device)

    @property
    def has_inputs(self) -> bool:
        """Whether the inputs of all wanted layers were collected."""
        return self.needs.layer_inputs | self.needs.visual_inputs <= self.layer_inputs.keys()

    def add_attention(
        self,
        query: Tensor,
        key: Tensor,
        scale: float,
        lse: Tensor,
        shards: Shards | None = None,
    ) -> None:
        """Add one layer's weights from query rows to visual tokens.

        The weights are recomputed for these rows and columns alone, normalised by the log-sum-exp
        over all keys, so that no full attention matrix ever exists.

        Args:
            query: [b, kv_heads, rows, d] with the grouped heads stacked as rows.
            key: [b, kv_heads, P, d] the prefix.
            lse: [b, kv_heads, rows] over all keys, tail included.
            shards: the ranks that have the other heads.
        """
        batch, kv_heads, rows, _ = query.shape
        columns = self.columns.to(query.device)
        total = query.new_zeros(batch, len(self.columns), dtype=torch.float32)
        for head in range(kv_heads):
            scores = torch.matmul(query[:, head] * scale, key[:, head].transpose(-1, -2)).float()
            weights = torch.exp(scores - lse[:, head, :, None]).sum(1)
            total += weights.index_select(1, columns)
        if shards is not None:
            total = shards.sum(total)
        total = total.to(self.columns.device)
        self.attention = total if self.attention is None else self.attention + total
        self.heads_seen += kv_heads * rows * (shards.count if shards is not None else 1)

    def add_mass(
        self,
        query: Tensor,
        key: Tensor,
        scale: float,
        prefix_lse: Tensor,
        lse: Tensor,
        shards: Shards | None = None,
    ) -> None:
        """Take the visual mass of the last layer from its log-sum-exps.

        The prefix's share minus that of its few text tokens (system prompt, attention sink).

        Args:
            query: [b, kv_heads, group * n, d] with the grouped heads stacked as rows.
            key: [b, kv_heads, P, d] the prefix.
            prefix_lse, lse: [b, kv_heads, group * n] over the prefix and over all keys.
            shards: the ranks that have the other heads; what is kept is the mean over the ranks.
        """
        mass = torch.exp(prefix_lse - lse)
        if self.text_columns is not None and len(self.text_columns):
            words = key.index_select(2, self.text_columns.to(key.device)).transpose(-1, -2)
            scores = torch.matmul(query * scale, words).float()
            mass = mass - torch.exp(torch.logsumexp(scores, dim=-1) - lse)
        mass = mass.clamp(min=0)
        if shards is not None:
            mass = shards.sum(mass) / shards.count
        self.mass = mass.to(self.columns.device)

    def mean_mass(self, rows: int) -> Tensor:
        """[b, rows] share of each row's last-layer attention on visual tokens, mean over heads.

        Raises:
            ValueError: when it was not collected.
        """
        if self.mass is None:
            raise ValueError("no visual mass was collected")
        return self.mass.reshape(self.mass.shape[0], -1, rows).mean(1)

    def mean_attention(self) -> Tensor:
        """[b, m] mean over layers, heads and rows.

        Raises:
            ValueError: when no attention was collected.
        """
        if self.attention is None:
            raise ValueError("no attention was collected")
        return self.attention / self.heads_seen
