"""Attention over a frozen prefix and a masked tail, merged by log-sum-exp.

One function, registered with transformers' ``AttentionInterface``, serves prefill, question, tree
verification and one-token steps of every model family. Its state arrives as one keyword argument of
the text model's forward (``vidcap=AttentionStep``), so no model file, mask function or ``Cache``
object is touched. The function writes keys and values itself.

For a query row q, the prefix gives output o1 with log-sum-exp l1, the tail o2 with l2; the softmax
over both is (o1 e^l1 + o2 e^l2) / (e^l1 + e^l2). On a CPU the prefix may come in several parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from vidcap.engine.kernels import BLOCK_ROWS, attend, flash_works, merge, takes_flash
from vidcap.engine.kv import KVCache, KVSpec
from vidcap.engine.parts import count_parts, merge_parts, stacked
from vidcap.engine.probe import Probe
from vidcap.engine.shards import Shards

#: Name under which the function is registered. It must contain neither "flash" nor "sdpa" nor "/":
#: transformers attaches meanings to those.
ATTENTION_NAME = "vidcap_split"


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


class KeysKept(Exception):  # noqa: N818 (control flow, not an error)
    """Raised in the last layer of a pass that is for keys and values alone, once they are kept."""


@dataclass(frozen=True, slots=True)
class AttentionStep:
    """State of one forward pass, the same for all layers.

    Attributes:
        kv: where keys and values live.
        first: first tail row that this pass writes, the others follow; None for a prefill.
        prefix_rows: rows of a prefill that make the frozen prefix, the others are the first of the
            tail; None where all of them are prefix.
        rows: tail rows that may be attended to (committed rows and those of this pass).
        lead: last rows of the prefix that are attended to in one call with the tail.
        bias: additive mask [b, 1, group * q, lead + rows] in the model's dtype, 0 or -inf, None
            where every row of the tail is visible to every query.
        probe: collects what was asked for, None where nothing was.
        deepstack: what to add behind the first layers of a prefill, None for nothing.
        on_layer: called in every layer of a prefill with the layer's index, by the thread that runs
            it, once its inputs are known and before it attends.
        positions: where all position ids of this pass lie, None where nobody has said so.
        visual: whether rows of the video are among the tail rows of this pass: their positions
            differ from axis to axis.
        keys_only: whether keys and values are all that is wanted of this pass: it ends in the last
            layer with :class:`KeysKept`, and what that layer would compute from them is spared.
    """

    kv: KVCache
    first: int | None = None
    rows: int = 0
    lead: int = 0
    bias: Tensor | None = None
    probe: Probe | None = None
    deepstack: Deepstack | None = None
    prefix_rows: int | None = None
    on_layer: Callable[[int], None] | None = None
    positions: range | None = None
    visual: bool = False
    keys_only: bool = False
    _moved: dict[torch.device, AttentionStep] = field(default_factory=dict, repr=False)

    def on(self, device: torch.device) -> AttentionStep:
        """This step for a layer that runs on a device: its mask is brought there once."""
        if self.bias is None or self.bias.device == device:
            return self
        if device not in self._moved:
            self._moved[device] = replace(self, bias=self.bias.to(device))
        return self._moved[device]


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
    last = vidcap.keys_only and layer == vidcap.kv.spec.layers - 1
    if vidcap.first is None:
        _keep_prompt(vidcap, layer, key, value)
        if last:
            raise KeysKept
        if vidcap.kv.spec.attention == "sdpa":
            return _without_step(module, query, key, value, None, scaling=scale, is_causal=True)
        return _prefill(query, key, value, scale), None
    vidcap.kv.write(layer, vidcap.first, key, value)
    if last:
        raise KeysKept
    return attend_tail(query, vidcap.on(query.device), layer, scale), None


def _keep_prompt(step: AttentionStep, layer: int, key: Tensor, value: Tensor) -> None:
    """Store keys and values of a prefill: the prefix, and the question where it is there too."""
    rows = step.prefix_rows
    if rows is None:
        step.kv.freeze(layer, key, value)
        return
    step.kv.freeze(layer, key[:, :, :rows], value[:, :, :rows])
    step.kv.write(layer, 0, key[:, :, rows:], value[:, :, rows:])


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


def attend_tail(query: Tensor, step: AttentionStep, layer: int, scale: float) -> Tensor:
    """Attend from tail rows, whose keys and values have been written, to prefix and tail.

    Args:
        query: [b, heads, q, d].
        step, layer: where keys and values live; the step's mask is on the query's device.
        scale: factor on the scores.

    Returns:
        [b, q, heads, d].
    """
    batch, heads, rows, dim = query.shape
    kv, spec = step.kv, step.kv.spec
    packed = query.reshape(batch, spec.kv_heads, spec.group * rows, dim)
    key, value = kv.lead_and_tail(layer, step.lead, step.rows)
    out, lse = attend(packed, key, value, scale, step.bias, spec.attention)
    if kv.prefix_length > step.lead:
        out = _with_prefix(packed, out, lse, step, layer, scale)
    return out.reshape(batch, heads, rows, dim).transpose(1, 2)


def _with_prefix(
    query: Tensor,
    out: Tensor,
    lse: Tensor,
    step: AttentionStep,
    layer: int,
    scale: float,
) -> Tensor:
    """Attention to everything, from that to the tail and the step's lead.

    Shapes are as in :func:`attend`.
    """
    kv, kernel = step.kv, step.kv.spec.attention
    key, value = kv.prefix[layer]
    batch, kv_heads, rows, _ = query.shape
    keys, parts = key.shape[2] - step.lead, 1
    if query.device.type == "cpu" and takes_flash(query, kernel):
        parts = count_parts(batch, kv_heads, rows, keys, torch.get_num_threads())
    if parts == 1:
        if step.lead:
            key, value = key.narrow(2, 0, keys), value.narrow(2, 0, keys)
        prefix_out, prefix_lse = attend(query, key, value, scale, kernel=kernel)
        joined = merge(prefix_out, prefix_lse, out, lse)
    else:
        cut = kv.prefix_parts(layer, parts, keys)
        found = attend(cut.spread(query), cut.key, cut.value, scale, cut.mask, kernel)
        outs, lses = stacked(*found, batch)
        joined, prefix_lse = merge_parts(outs, lses, out, lse), lses
    if step.probe is not None:
        if parts > 1:
            prefix_lse = torch.logsumexp(prefix_lse, dim=0)
        last = layer == kv.spec.layers - 1
        _tell(step.probe, query, key, scale, prefix_lse, lse, last, kv.spec.shards)
    return joined


def _tell(
    probe: Probe,
    query: Tensor,
    key: Tensor,
    scale: float,
    prefix_lse: Tensor,
    lse: Tensor,
    last: bool,
    shards: Shards | None,
) -> None:
    """Give a probe what it needs of a layer's attention."""
    both = torch.logaddexp(prefix_lse, lse)
    if probe.needs.visual_attention:
        probe.add_attention(query, key, scale, both, shards)
    if probe.needs.visual_mass and last:
        probe.add_mass(query, key, scale, prefix_lse, both, shards)


def rows_per_block(spec: KVSpec) -> float:
    """Tokens whose query rows the flash kernel of a CPU takes as one piece; 0 where none does."""
    if spec.device.type != "cpu" or spec.attention == "sdpa":
        return 0.0
    works = flash_works(spec.device, spec.dtype, spec.head_dim)
    return BLOCK_ROWS / spec.group if works else 0.0


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
