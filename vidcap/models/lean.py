"""A lean decode step over the weights of a released text decoder.

The released forward spends most of a one-token step outside matrix products: decorators, mask
building, one kernel per projection. This step runs the same layers with fused projections and only
the operations they need, and writes keys and values straight into the engine's tail. It serves tail
passes (question, tree, one token); the prefix goes through the released forward, and so does every
decoder whose layers are not known to have exactly this form. A test holds both equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vidcap.engine.attention import AttentionStep, attend_tail
from vidcap.engine.shards import Shards
from vidcap.models.norms import Norm, fast_norm
from vidcap.models.packed import PackedLinear, Projection, linear_maker
from vidcap.models.rotation import Rotation


@dataclass(frozen=True, slots=True)
class _Form:
    """Layers with pre-norm, rotated queries and keys and a SiLU-gated MLP; what may differ.

    Attributes:
        biased: whether q, k and v have biases; no other projection has.
        normed_heads: whether every head of q and k is normalised before it is rotated.
    """

    biased: bool
    normed_heads: bool


_QWEN2 = _Form(biased=True, normed_heads=False)
_QWEN3 = _Form(biased=False, normed_heads=True)

#: Text models by class, and the form of their layers.
_FORMS = {
    "Qwen2Model": _QWEN2,
    "Qwen2VLTextModel": _QWEN2,
    "Qwen2_5_VLTextModel": _QWEN2,
    "Qwen3VLTextModel": _QWEN3,
}
_QKV = ("q_proj", "k_proj", "v_proj")


@dataclass(frozen=True, slots=True)
class _Layer:
    """One decoder layer; q, k, v and gate, up are one product each.

    Attributes:
        head_norms: of queries and keys, None where they are used as they come.
    """

    qkv: Projection
    head_norms: tuple[Norm, Norm] | None
    out: Projection
    gate_up: Projection
    down: Projection
    input_norm: Norm
    mlp_norm: Norm
    device: torch.device


class LeanDecoder:
    """Runs tail rows through the layers of a text model of Qwen2's or Qwen3's form."""

    def __init__(self, text: Any, shards: Shards | None = None):
        """Fuses projections that are not packed in place: the released modules get views of them.

        Args:
            text: a released text model for which :func:`has_lean_form` holds.
            shards: the ranks that share its layers; it then has the parts of this one.
        """
        config, count = text.config, shards.count if shards is not None else 1
        self._heads: int = config.num_attention_heads // count
        self._kv_heads: int = config.num_key_value_heads // count
        self._rotation = Rotation(text.rotary_emb)
        self._norm = fast_norm(text.norm)
        make = linear_maker([weight for weight in text.layers.parameters() if weight.dim() > 1])
        self._layers = [_fuse(layer, make, shards) for layer in text.layers]
        # Qwen3 sets the width of a head apart from that of the model.
        self._head_dim: int = len(text.layers[0].self_attn.q_proj.weight) // self._heads
        self._scale = self._head_dim**-0.5

    def forward(self, embeds: Tensor, position_ids: Tensor, step: AttentionStep) -> Tensor:
        """Last hidden states [b, n, d] of tail rows, after the final norm.

        Args:
            embeds: [b, n, d].
            position_ids: Long[3, b, n] equal on all axes (text), or Long[b, n].
            step: with `first`, the tail row that the first of them becomes.

        Raises:
            ValueError: the step is a prefill.
        """
        hidden, first = embeds, step.first
        if first is None:
            raise ValueError("only tail rows go through the lean step")
        cos, sin = self._rotation(embeds, position_ids, step.positions)
        for index, layer in enumerate(self._layers):
            if hidden.device != layer.device:
                hidden, cos, sin = (tensor.to(layer.device) for tensor in (hidden, cos, sin))
                step = step.on(layer.device)
            query, pair = self._project(layer.input_norm(hidden), layer, cos, sin)
            step.kv.write_pair(index, first, pair)
            mixed = attend_tail(query, step, index, self._scale).flatten(2)
            hidden = layer.out(mixed).add_(hidden)
            gate, up = layer.gate_up(layer.mlp_norm(hidden)).chunk(2, -1)
            hidden = layer.down(functional.silu(gate).mul_(up)).add_(hidden)
        normed: Tensor = self._norm(hidden.to(embeds.device))
        return normed

    def _project(
        self, normed: Tensor, layer: _Layer, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Queries [b, heads, n, d] of d numbers, keys and values [2, b, kv_heads, n, d]."""
        heads, kv_heads, dim = self._heads, self._kv_heads, self._head_dim
        batch, count, _ = normed.shape
        qkv = layer.qkv(normed).view(batch, count, -1, dim)
        if layer.head_norms is not None:
            parts = qkv.narrow(2, 0, heads), qkv.narrow(2, heads, kv_heads)
            for norm, part in zip(layer.head_norms, parts, strict=True):
                part.copy_(norm(part))
        turned = qkv.view(batch, count, -1, 2, dim // 2).narrow(2, 0, heads + kv_heads)
        swapped = turned.flip(3).mul_(sin)
        turned.mul_(cos).add_(swapped)
        pair = qkv.narrow(2, heads, 2 * kv_heads).view(batch, count, 2, kv_heads, dim)
        return qkv.narrow(2, 0, heads).transpose(1, 2), pair.permute(2, 0, 3, 1, 4)


def has_lean_form(text: Any) -> bool:
    """Whether a released text model's layers are exactly those that :class:`LeanDecoder` runs.

    Layers whose weights are brought to their device when they run (on ``meta`` until then) are not.
    """
    form = _FORMS.get(type(text).__name__)
    if form is None or text.config.hidden_act != "silu":
        return False
    return all(
        _has_form(layer, form)
        and type(module) is nn.Linear
        and type(module.weight) is nn.Parameter  # weights in fewer bits cannot be stacked
        and not module.weight.is_meta
        and (module.bias is not None) == (form.biased and name.endswith(_QKV))
        for layer in text.layers
        for name, module in layer.named_modules()
        if name.endswith("_proj")
    )


def _has_form(layer: Any, form: _Form) -> bool:
    present = [hasattr(layer.self_attn, name) for name in ("q_norm", "k_norm")]
    return present == [form.normed_heads] * 2


def _fuse(
    layer: Any, make: Callable[[Tensor, Tensor | None], Projection], shards: Shards | None
) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    projections = [getattr(attention, name) for name in _QKV]
    biased, normed = attention.q_proj.bias is not None, hasattr(attention, "q_norm")
    # A packed layer has its own copy; then the released modules may keep what they have.
    stack = _joined if make is PackedLinear else _stack
    return _Layer(
        qkv=make(stack(projections, "weight"), stack(projections, "bias") if biased else None),
        head_norms=(fast_norm(attention.q_norm), fast_norm(attention.k_norm)) if normed else None,
        out=_added_up(make(attention.o_proj.weight, None), shards),
        gate_up=make(stack([mlp.gate_proj, mlp.up_proj], "weight"), None),
        down=_added_up(make(mlp.down_proj.weight, None), shards),
        input_norm=fast_norm(layer.input_layernorm),
        mlp_norm=fast_norm(layer.post_attention_layernorm),
        device=mlp.down_proj.weight.device,
    )


def _added_up(projection: Projection, shards: Shards | None) -> Projection:
    """A projection of which each rank has the part for its own inputs."""
    return projection if shards is None else lambda x: shards.sum(projection(x))


def _stack(modules: list[Any], name: str) -> Tensor:
    """The modules' parameters below one another; the modules get views of the result."""
    fused = _joined(modules, name)
    views = fused.split([len(getattr(module, name)) for module in modules])
    for module, view in zip(modules, views, strict=True):
        setattr(module, name, nn.Parameter(view, requires_grad=False))
    return fused


def _joined(modules: list[Any], name: str) -> Tensor:
    """A copy of the modules' parameters below one another."""
    return torch.cat([getattr(module, name).detach() for module in modules])
