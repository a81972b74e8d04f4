"""What the engine asks of a model, and what a model hands to the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from vidcap.engine.attention import AttentionStep


@dataclass(frozen=True, slots=True)
class KVSpec:
    """Sizes of one model's keys and values; `group` query heads share one key head."""

    layers: int
    kv_heads: int
    group: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, slots=True)
class EncodedPrefix:
    """A prompt up to and including its last visual token, ready for the decoder layers.

    Attributes:
        ids: Long[b, P] token ids, one placeholder id per visual token.
        embeds: [b, P, d] embeddings with the visual features in place of the placeholders.
        position_ids: Long[planes, b, P] for M-RoPE, Long[b, P] for 1-D positions.
        visual_index: Long[m] columns of the visual tokens.
        suffix_start: position id of the first text token behind the prefix; every later token
            counts on from there, on all planes.
    """

    ids: Tensor
    embeds: Tensor
    position_ids: Tensor
    visual_index: Tensor
    suffix_start: int

    @property
    def length(self) -> int:
        """P, the number of prompt tokens in the prefix."""
        return self.ids.shape[1]


class LanguageModel(Protocol):
    """The text half of a Video-LLM as the engine drives it."""

    @property
    def kv_spec(self) -> KVSpec:
        """Sizes of the keys and values."""
        ...

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings [b, n, d] of Long[b, n] text ids."""
        ...

    def forward(self, embeds: Tensor, position_ids: Tensor, step: AttentionStep) -> Tensor:
        """Last hidden states [b, n, d] after the final norm; `step` says where K and V go."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [b, n, V] of hidden states [b, n, d], in the model's dtype."""
        ...
