"""What the engine asks of a model, and what a model hands to the engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from vidcap.engine.attention import AttentionStep, Deepstack
from vidcap.engine.kv import KVSpec

__all__ = ["Deepstack", "EncodedPrefix", "KVSpec", "LanguageModel"]


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
        grid: visual tokens in time, height and width, None where they form no grid.
        deepstack: per layer [b, m, d] features for :class:`Deepstack`, empty in most families.
    """

    ids: Tensor
    embeds: Tensor
    position_ids: Tensor
    visual_index: Tensor
    suffix_start: int
    grid: tuple[int, int, int] | None = None
    deepstack: tuple[Tensor, ...] = ()

    @property
    def layer_features(self) -> Deepstack | None:
        """What a prefill has to add behind the first layers, None for nothing."""
        return Deepstack(self.visual_index, self.deepstack) if self.deepstack else None

    def without_inputs(self) -> EncodedPrefix:
        """Ids and positions alone: once prefilled, the embeddings only take up memory."""
        return replace(self, embeds=self.embeds[:, :0], deepstack=())

    @property
    def length(self) -> int:
        """P, the number of prompt tokens in the prefix."""
        return self.ids.shape[1]

    def columns_of(self, kept: Tensor) -> Tensor:
        """Long[n] columns that stay when only the visual tokens of rank `kept` (Long[k]) do."""
        stays = torch.ones(self.length, dtype=torch.bool, device=self.ids.device)
        stays[self.visual_index] = False
        stays[self.visual_index[kept.to(stays.device)]] = True
        return stays.nonzero().flatten()

    def keep(self, kept: Tensor, *, compact: bool) -> EncodedPrefix:
        """The prefix with fewer visual tokens.

        Args:
            kept: Long[k] sorted ranks of the visual tokens that stay.
            compact: number all columns 0, 1, 2 ... on every axis, as SpecVLM's code does for its
                draft; otherwise every column, and the text behind, keeps its position.
        """
        columns = self.columns_of(kept)
        positions = self.position_ids[..., columns]
        if compact:
            positions = torch.arange(len(columns), device=columns.device).expand_as(positions)
        visual = torch.isin(columns, self.visual_index)
        return EncodedPrefix(
            ids=self.ids[:, columns],
            embeds=self.embeds[:, columns],
            position_ids=positions,
            visual_index=visual.nonzero().flatten(),
            suffix_start=len(columns) if compact else self.suffix_start,
            deepstack=tuple(features[:, kept.to(features.device)] for features in self.deepstack),
        )


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
        """Last hidden states [b, n, d] after the final norm; `step` says where K and V go.

        Nothing of use is returned where the step is for keys and values only.
        """
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [b, n, V] of hidden states [b, n, d], in the model's dtype."""
        ...
