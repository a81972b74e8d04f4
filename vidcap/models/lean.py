"""A lean decode step over the weights of a released text decoder.

The released forward spends most of a one-token step outside matrix products: decorators, mask
building, one kernel per projection. This step runs the same layers with fused projections and only
the operations they need, and writes keys and values straight into the engine's tail. It serves tail
passes (question, tree, one token); the prefix goes through the released forward, and so does every
decoder whose layers are not known to have exactly this form. A test holds both equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vidcap.engine.attention import AttentionStep, attend_tail

#: Text models whose layers have the form of Qwen2: pre-norm, biased q/k/v, SiLU-gated MLP.
_QWEN2_FORM = frozenset({"Qwen2_5_VLTextModel", "Qwen2VLTextModel", "Qwen2Model"})
_BIASED = ("q_proj", "k_proj", "v_proj")


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weights of one decoder layer; q, k, v and gate, up are stacked as rows."""

    qkv_weight: Tensor
    qkv_bias: Tensor
    out_weight: Tensor
    gate_up_weight: Tensor
    down_weight: Tensor
    input_norm: nn.Module
    mlp_norm: nn.Module


class LeanDecoder:
    """Runs tail rows through the layers of a Qwen2-form text model."""

    def __init__(self, text: Any):
        """Fuses the projections in place: the released modules keep working on views of them.

        Args:
            text: a released text model for which :func:`has_lean_form` holds.
        """
        config = text.config
        self._heads: int = config.num_attention_heads
        self._kv_heads: int = config.num_key_value_heads
        self._rotary = text.rotary_emb
        self._norm = text.norm
        self._layers = [_fuse(layer) for layer in text.layers]
        self._head_dim: int = self._layers[0].qkv_weight.shape[0] // (
            self._heads + 2 * self._kv_heads
        )

    def forward(self, embeds: Tensor, position_ids: Tensor, step: AttentionStep) -> Tensor:
        """Last hidden states [b, n, d] of tail rows, after the final norm.

        Args:
            embeds: [b, n, d].
            position_ids: Long[3, b, n] equal on all axes (text), or Long[b, n].
            step: with `slots`; the rows are written there.
        """
        if step.slots is None:
            raise ValueError("the lean step runs tail rows only")
        hidden = embeds
        cos, sin = self._rotation(embeds, position_ids)
        for index, layer in enumerate(self._layers):
            normed = layer.input_norm(hidden)
            query, key, value = self._project(normed, layer, cos, sin)
            step.kv.write(index, step.slots, key, value)
            mixed = attend_tail(query, step, index, self._head_dim**-0.5).flatten(2)
            hidden = hidden + functional.linear(mixed, layer.out_weight)
            gate, up = functional.linear(layer.mlp_norm(hidden), layer.gate_up_weight).chunk(2, -1)
            hidden = hidden + functional.linear(functional.silu(gate) * up, layer.down_weight)
        normed_hidden: Tensor = self._norm(hidden)
        return normed_hidden

    def _rotation(self, embeds: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """cos and signed sin [b, n, 1, head_dim] of the released rotary embedding.

        Text has the same position on all axes, so it does not matter which axis a release gives
        to which frequency, nor whether it merges them here or later.
        """
        cos, sin = self._rotary(embeds, position_ids)
        if cos.dim() == 4:
            cos, sin = cos[0], sin[0]
        half = cos.shape[-1] // 2
        signed = torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)
        return cos.unsqueeze(2), signed.unsqueeze(2)

    def _project(
        self, normed: Tensor, layer: _Layer, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [b, heads, n, head_dim], keys and values [b, kv_heads, n, head_dim]."""
        rotated = self._heads + self._kv_heads
        qkv = functional.linear(normed, layer.qkv_weight, layer.qkv_bias)
        qkv = qkv.unflatten(2, (-1, self._head_dim))
        turned = qkv[:, :, :rotated]
        turned = turned * cos + turned.roll(self._head_dim // 2, -1) * sin
        query, key = turned.split([self._heads, self._kv_heads], dim=2)
        return query.transpose(1, 2), key.transpose(1, 2), qkv[:, :, rotated:].transpose(1, 2)


def has_lean_form(text: Any) -> bool:
    """Whether a released text model's layers are exactly those that :class:`LeanDecoder` runs."""
    if type(text).__name__ not in _QWEN2_FORM or text.config.hidden_act != "silu":
        return False
    return all(
        type(module) is nn.Linear and (module.bias is not None) == name.endswith(_BIASED)
        for layer in text.layers
        for name, module in layer.named_modules()
        if name.endswith("_proj")
    )


def _fuse(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    projections = [attention.q_proj, attention.k_proj, attention.v_proj]
    return _Layer(
        qkv_weight=_stack(projections, "weight"),
        qkv_bias=_stack(projections, "bias"),
        out_weight=attention.o_proj.weight,
        gate_up_weight=_stack([mlp.gate_proj, mlp.up_proj], "weight"),
        down_weight=mlp.down_proj.weight,
        input_norm=layer.input_layernorm,
        mlp_norm=layer.post_attention_layernorm,
    )


def _stack(modules: list[Any], name: str) -> Tensor:
    """The modules' parameters below one another; the modules get views of the result."""
    parts = [getattr(module, name) for module in modules]
    fused = torch.cat([part.detach() for part in parts])
    views = fused.split([len(part) for part in parts])
    for module, view in zip(modules, views, strict=True):
        setattr(module, name, nn.Parameter(view, requires_grad=False))
    return fused
