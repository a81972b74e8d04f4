"""Attention over a frozen prefix and a masked tail, merged by log-sum-exp.

One function, registered with transformers' ``AttentionInterface``, serves prefill, question, tree
verification and one-token steps of every model family. Its state arrives as one keyword argument of
the text model's forward (``vidcap=AttentionStep``), so no model file, mask function or ``Cache``
object is touched. The function writes keys and values itself.

For a query row q, the prefix gives output o1 with log-sum-exp l1, the tail o2 with l2; the softmax
over both is (o1 e^l1 + o2 e^l2) / (e^l1 + e^l2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from vidcap.engine.kv import KVCache
from vidcap.engine.probe import Probe
from vidcap.settings import AttentionName

#: Name under which the function is registered. It must contain neither "flash" nor "sdpa" nor "/":
#: transformers attaches meanings to those.
ATTENTION_NAME = "vidcap_split"


#: Query rows whose scores the reference holds at once.
_REFERENCE_ROWS = 256


@dataclass(frozen=True, slots=True)
class Deepstack:
    """Visual features that join the states behind the first decoder layers (Qwen3-VL).

    Only the prefill of a prefix needs them: what they change is in its keys and values.

    Attributes:
        columns: Long[m] prefix columns of the visual tokens.
        features: per layer, from the first on, [b, m, d] to add to the states of these columns.
    """

    columns: Tensor
    features: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class AttentionStep:
    """State of one forward pass, the same for all layers.

    Attributes:
        kv: where keys and values live.
        slots: Long[q] tail rows that this pass writes; None for a prefill.
        prefix_rows: rows of a prefill that make the frozen prefix, the others are the first of the
            tail; None where all of them are prefix.
        rows: tail rows that may be attended to (committed rows and those of this pass).
        bias: additive mask [b, 1, group * q, rows] in the model's dtype, 0 or -inf, None where
            every row of the tail is visible to every query.
        probe: collects what was asked for, None where nothing was.
        deepstack: what to add behind the first layers of a prefill, None for nothing.
        on_layer: called in every layer of a prefill with the layer's index, by the thread that runs
            it, once its inputs are known and before it attends.
        visual: whether rows of the video are among those of this pass, though it has slots: their
            positions differ from axis to axis.
    """

    kv: KVCache
    slots: Tensor | None = None
    rows: int = 0
    bias: Tensor | None = None
    probe: Probe | None = None
    deepstack: Deepstack | None = None
    prefix_rows: int | None = None
    on_layer: Callable[[int], None] | None = None
    visual: bool = False
    _moved: dict[torch.device, AttentionStep] = field(default_factory=dict, repr=False)

    def on(self, device: torch.device) -> AttentionStep:
        """This step for a layer that runs on a device: its tensors are brought there once."""
        if self.slots is None or self.slots.device == device:
            return self
        if device not in self._moved:
            bias = None if self.bias is None else self.bias.to(device)
            self._moved[device] = replace(self, slots=self.slots.to(device), bias=bias)
        return self._moved[device]


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    bias: Tensor | None = None,
    kernel: AttentionName = "auto",
) -> tuple[Tensor, Tensor]:
    """Softmax attention and its log-sum-exp.

    The flash kernel of CUDA knows no masks: what is masked is the small tail, which takes plain
    products whatever `kernel` is.

    Args:
        query: [b, kv_heads, rows, d]; the query heads that share a key head are stacked as rows.
        key, value: [b, kv_heads, n, d], n at least 1.
        scale: factor on the scores.
        bias: additive mask [b, 1, rows, n] or None; no row may be masked completely.
        kernel: ``sdpa`` for plain products, else the flash kernel where it runs.

    Returns:
        output [b, kv_heads, rows, d] in the query's dtype, and lse [b, kv_heads, rows] in float32.
    """
    on_cpu = query.device.type == "cpu"
    possible = kernel != "sdpa" and (on_cpu or bias is None)
    if not (possible and flash_works(query.device, query.dtype, query.shape[-1])):
        return attend_reference(query, key, value, scale, bias)
    if on_cpu:
        return _flash_on_cpu(query, key, value, scale, bias)
    return _flash_on_cuda(query, key, value, scale)


def _flash_on_cpu(
    query: Tensor, key: Tensor, value: Tensor, scale: float, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, False, attn_mask=bias, scale=scale
    )
    return out, lse


def _flash_on_cuda(
    query: Tensor, key: Tensor, value: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    out, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(
        query, key, value, 0.0, False, False, scale=scale
    )
    return out, lse


@lru_cache(maxsize=32)
def flash_works(device: torch.device, dtype: torch.dtype, head_dim: int) -> bool:
    """Whether torch's flash kernel runs here and agrees with the reference on random input."""
    on_cpu = device.type == "cpu"
    if not on_cpu and dtype not in (torch.float16, torch.bfloat16):
        return False
    flash = _flash_on_cpu if on_cpu else _flash_on_cuda
    shape = (1, 2, 5, head_dim)
    generator = torch.Generator(device).manual_seed(0)
    query, key, value = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator) for _ in range(3)
    )
    try:
        out, lse = flash(query, key, value, 0.1)
    except (RuntimeError, AttributeError):  # AttributeError: a release without that kernel
        return False
    expected, expected_lse = attend_reference(query, key, value, 0.1)
    close = torch.allclose(out.float(), expected.float(), atol=2e-2)
    return close and torch.allclose(lse.float(), expected_lse, atol=2e-2)


def attend_reference(
    query: Tensor, key: Tensor, value: Tensor, scale: float, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same as :func:`attend` in plain matrix products; runs on every device and dtype.

    Scores are computed in float32, and for a bounded number of rows at a time.
    """
    keys = key.float().transpose(-1, -2)
    parts = []
    for begin in range(0, query.shape[2], _REFERENCE_ROWS):
        rows = slice(begin, begin + _REFERENCE_ROWS)
        scores = torch.matmul(query[:, :, rows].float() * scale, keys)
        if bias is not None:
            scores = scores + bias[:, :, rows]
        lse = torch.logsumexp(scores, dim=-1)
        weights = torch.exp(scores - lse.unsqueeze(-1)).to(value.dtype)
        parts.append((torch.matmul(weights, value), lse))
    return torch.cat([out for out, _ in parts], dim=2), torch.cat([lse for _, lse in parts], dim=2)


def merge(out1: Tensor, lse1: Tensor, out2: Tensor, lse2: Tensor) -> Tensor:
    """Join two partial attentions over disjoint keys; shapes as :func:`attend` returns them."""
    share = torch.sigmoid(lse2 - lse1).unsqueeze(-1)
    return torch.lerp(out1.float(), out2.float(), share).to(out1.dtype)


def split_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    vidcap: AttentionStep | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The attention function that transformers calls in every text layer.

    Without a step it is transformers' own SDPA function, so ``generate`` works on the same model.

    Returns:
        output [b, q, heads, d] and None in place of attention weights.
    """
    if vidcap is None:
        return _without_step(
            module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, **kwargs
        )
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    layer: int = module.layer_idx  # type: ignore[assignment]
    if vidcap.on_layer is not None:
        vidcap.on_layer(layer)
    if vidcap.slots is None:
        _keep_prompt(vidcap, layer, key, value)
        if vidcap.kv.spec.attention == "sdpa":
            return _without_step(module, query, key, value, None, scaling=scale, is_causal=True)
        return _prefill(query, key, value, scale), None
    return attend_tail(query, key, value, vidcap.on(query.device), layer, scale), None


def _keep_prompt(step: AttentionStep, layer: int, key: Tensor, value: Tensor) -> None:
    """Store keys and values of a prefill: the prefix, and the question where it is there too."""
    rows, count = step.prefix_rows, key.shape[2]
    if rows is None:
        step.kv.freeze(layer, key, value)
        return
    step.kv.freeze(layer, key[:, :, :rows], value[:, :, :rows])
    slots = torch.arange(count - rows, device=key.device)
    step.kv.write(layer, slots, key[:, :, rows:], value[:, :, rows:])


def _prefill(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """Causal attention of a prompt over itself, [b, P, heads, d]."""
    group = query.shape[1] // key.shape[1]
    half = query.dtype in (torch.float16, torch.bfloat16)
    if group > 1 and not half and query.device.type == "cuda":
        # Only the flash kernel knows grouped heads, and it is for half precision.
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        group = 1
    out = functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=scale, enable_gqa=group > 1
    )
    return out.transpose(1, 2)


def attend_tail(
    query: Tensor, key: Tensor, value: Tensor, step: AttentionStep, layer: int, scale: float
) -> Tensor:
    """Write keys and values of tail rows, and attend from these rows to prefix and tail.

    Args:
        query: [b, heads, q, d].
        key, value: [b, kv_heads, q, d].
        step, layer: where keys and values live; the step's tensors are on the query's device.
        scale: factor on the scores.

    Returns:
        [b, q, heads, d].
    """
    batch, heads, rows, dim = query.shape
    if step.slots is None:
        raise ValueError("tail rows need slots to be written to")
    step.kv.write(layer, step.slots, key, value)
    spec, tail = step.kv.spec, step.kv.tail(layer)[..., : step.rows, :]
    packed = query.reshape(batch, spec.kv_heads, spec.group * rows, dim)
    out, lse = attend(packed, tail[0], tail[1], scale, step.bias, spec.attention)
    if step.kv.prefix_length:
        prefix_key, prefix_value = step.kv.prefix[layer]
        prefix_out, prefix_lse = attend(
            packed, prefix_key, prefix_value, scale, kernel=spec.attention
        )
        if step.probe is not None:
            both = torch.logaddexp(prefix_lse, lse)
            if step.probe.needs.visual_attention:
                step.probe.add_attention(packed, prefix_key, scale, both)
            if step.probe.needs.visual_mass and layer == spec.layers - 1:
                step.probe.add_mass(packed, prefix_key, scale, prefix_lse, both)
        out = merge(prefix_out, prefix_lse, out, lse)
    return out.reshape(batch, heads, rows, dim).transpose(1, 2)


def _without_step(
    module: torch.nn.Module, query: Tensor, key: Tensor, *args: Any, **kwargs: Any
) -> tuple[Tensor, None]:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    mask = args[1]
    if mask is None and query.shape[2] > 1 and query.shape[2] != key.shape[2]:
        raise ValueError("several rows against a longer cache need a mask: pass a 4-D one")
    return sdpa_attention_forward(module, query, key, *args, **kwargs)


def register() -> None:
    """Make :data:`ATTENTION_NAME` known to transformers; calling it again changes nothing."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION_NAME, split_attention)
