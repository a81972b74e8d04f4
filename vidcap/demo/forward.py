"""A fast forward pass for training, over the parameters of the released model.

The released Qwen2.5-VL forward runs the vision tower frame by frame and window by window. Here
clips of one frame size form a batch, so each layer is a handful of large products; several texts
share one video (see :mod:`vidcap.demo.batches`); and products run in bfloat16 on float32 master
weights. The tests hold every part equal to the released model in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.utils.constants import OPENAI_CLIP_MEAN, OPENAI_CLIP_STD

Weights = tuple[Tensor, ...]


#: Pixels and frames of a patch, and patches per side that become one visual token.
PATCH, TEMPORAL, MERGE = 14, 2, 2


def patchify(frames: Tensor) -> Tensor:
    """Normalised patches of equally sized clips, in the order of the released processor.

    Args:
        frames: uint8 [b, n, h, w, 3]; n a multiple of 2, h and w of 28.

    Returns:
        float32 [b, grids, patches of a grid, 3 * 2 * 14 * 14].
    """
    b, n, h, w, _ = frames.shape
    rows, columns = h // PATCH // MERGE, w // PATCH // MERGE
    cut = frames.view(b, n // TEMPORAL, TEMPORAL, rows, MERGE, PATCH, columns, MERGE, PATCH, 3)
    cut = cut.permute(0, 1, 3, 6, 4, 7, 9, 2, 5, 8)
    flat = cut.reshape(b, n // TEMPORAL, rows * columns * MERGE**2, 3, TEMPORAL * PATCH**2)
    mean, std = (
        torch.tensor(value, device=frames.device).view(3, 1) * 255
        for value in (OPENAI_CLIP_MEAN, OPENAI_CLIP_STD)
    )
    return ((flat.float() - mean) / std).flatten(3)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    """``x @ weight.T + bias`` with the product in ``dtype``."""
    return F.linear(x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype))


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root-mean-square normalisation over the last dimension, in float32."""
    x = x.float()
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of ``x`` [..., heads, d] with ``cos`` and ``sin`` [..., 1, d]."""
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return (x.float() * cos + turned * sin).to(x.dtype)


def gated_mlp(
    x: Tensor, weights: Weights, biases: Sequence[Tensor | None], dtype: torch.dtype
) -> Tensor:
    """``down(silu(gate(x)) * up(x))`` with gate and up in one product."""
    gate, up, down = weights
    given = [bias for bias in biases[:2] if bias is not None]
    bias = torch.cat(given) if given else None
    both = linear(x, torch.cat((gate, up)), bias, dtype)
    g, u = both.chunk(2, dim=-1)
    return linear(F.silu(g) * u, down, biases[2], dtype)


# ------------------------------------------------------------------------------------------ vision


@cache
def grid_positions(h: int, w: int, merge: int) -> Tensor:
    """Row and column of each patch of an h x w grid in merge-block order: long [h * w, 2]."""
    rows, cols = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    blocks = torch.stack((rows, cols), -1).view(h // merge, merge, w // merge, merge, 2)
    return blocks.transpose(1, 2).reshape(h * w, 2)


@cache
def windows(h: int, w: int, merge: int, side: int) -> tuple[Tensor, ...]:
    """Patch indices of the attention windows of an h x w grid, grouped by window size.

    Args:
        side: side of a window in merged tokens.

    Returns:
        For each size that occurs, long [windows, patches]; empty when one window covers the grid.
    """
    if h <= side * merge and w <= side * merge:
        return ()
    place = grid_positions(h, w, merge) // (side * merge)
    number = place[:, 0] * (w // merge + side) + place[:, 1]
    groups: dict[int, list[Tensor]] = {}
    for value in number.unique():
        members = torch.nonzero(number == value)[:, 0]
        groups.setdefault(len(members), []).append(members)
    return tuple(torch.stack(group) for group in groups.values())


def _dense(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of every row to every row; [batch, rows, heads, d] in and out."""
    q, k, v = (part.transpose(1, 2) for part in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)


def vision_heads(
    x: Tensor, cos: Tensor, sin: Tensor, heads: int, w: Weights, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys, values [f, patches, heads, d] of a vision block, ``x`` [f, patches, c]."""
    norm1, _, qkv_w, qkv_b, *_ = w
    f, s, c = x.shape
    qkv = linear(rms_norm(x, norm1, 1e-6), qkv_w, qkv_b, dtype).view(f, s, 3, heads, c // heads)
    return rotate(qkv[:, :, 0], cos, sin), rotate(qkv[:, :, 1], cos, sin), qkv[:, :, 2]


def windowed(q: Tensor, k: Tensor, v: Tensor, groups: tuple[Tensor, ...]) -> Tensor:
    """Attention inside each window, or over all patches where there are no ``groups``."""
    if not groups:
        return _dense(q, k, v)
    out = torch.empty_like(v)
    for index in groups:
        mixed = _dense(*(part[:, index].flatten(0, 1) for part in (q, k, v)))
        out = out.index_copy(1, index.flatten(), mixed.reshape(v.shape[0], -1, *v.shape[2:]))
    return out


def vision_rest(x: Tensor, mixed: Tensor, w: Weights, dtype: torch.dtype) -> Tensor:
    """What follows attention in a vision block."""
    _, norm2, _, _, proj_w, proj_b, gate, gate_b, up, up_b, down, down_b = w
    x = x + linear(mixed.flatten(2), proj_w, proj_b, dtype)
    return x + gated_mlp(rms_norm(x, norm2, 1e-6), (gate, up, down), (gate_b, up_b, down_b), dtype)


def vision_weights(block: Any) -> Weights:
    """The parameters of one released vision block, in the order of :func:`vision_rest`."""
    a, m = block.attn, block.mlp
    pairs = (a.qkv, a.proj, m.gate_proj, m.up_proj, m.down_proj)
    flat = [tensor for layer in pairs for tensor in (layer.weight, layer.bias)]
    return (block.norm1.weight, block.norm2.weight, *flat)


class Forward:
    """Vision tower and text model of a released Qwen2.5-VL model, batched for training.

    Args:
        model: a ``Qwen2_5_VLForConditionalGeneration`` with float32 parameters.
        dtype: of the products; float32 equals the released forward.
        compiled: whether blocks run through ``torch.compile`` (fuses what is between products).
    """

    def __init__(self, model: Any, dtype: torch.dtype = torch.float32, *, compiled: bool = False):
        self.model = model
        self.visual = model.model.visual
        self.text = model.model.language_model
        self.dtype = dtype
        wrap: Callable[[Any], Any] = (
            (lambda f: torch.compile(f, dynamic=True)) if compiled else (lambda f: f)
        )
        # Windows differ from frame size to frame size, so what is compiled leaves them out.
        self._vision_heads, self._vision_rest = wrap(vision_heads), wrap(vision_rest)
        self._text_layer = wrap(text_layer)

    def vision(self, frames: Tensor) -> Tensor:
        """Visual tokens of clips ``frames`` uint8 [b, n, h, w, 3]: float32 [b, tokens, hidden]."""
        return self.merge(self.trunk(frames), len(frames))

    def trunk(self, frames: Tensor) -> Tensor:
        """What the vision tower's blocks make of the patches: float32 [b * grids, patches, c]."""
        config = self.visual.config
        height, width = frames.shape[2:4]
        h, w = height // config.patch_size, width // config.patch_size
        patches = patchify(frames).flatten(0, 1)
        weight = self.visual.patch_embed.proj.weight
        x = linear(patches, weight.flatten(1), None, self.dtype).float()
        at = grid_positions(h, w, config.spatial_merge_size).to(frames.device)
        cos, sin = (a[None, :, None] for a in self.visual.rotary_pos_emb(x, at))
        side = config.window_size // config.spatial_merge_size // config.patch_size
        inside = tuple(i.to(frames.device) for i in windows(h, w, config.spatial_merge_size, side))
        for number, block in enumerate(self.visual.blocks):
            groups = () if number in config.fullatt_block_indexes else inside
            w = vision_weights(block)
            q, k, v = self._vision_heads(x, cos, sin, config.num_heads, w, self.dtype)
            x = self._vision_rest(x, windowed(q, k, v, groups), w, self.dtype)
        return x

    def merge(self, x: Tensor, clips: int) -> Tensor:
        """Visual tokens float32 [clips, tokens, hidden] of what :meth:`trunk` returns."""
        merger = self.visual.merger
        x = rms_norm(x, merger.ln_q.weight, 1e-6).reshape(-1, merger.hidden_size)
        x = F.gelu(linear(x, merger.mlp[0].weight, merger.mlp[0].bias, self.dtype))
        x = linear(x, merger.mlp[2].weight, merger.mlp[2].bias, self.dtype).float()
        return x.reshape(clips, -1, x.shape[-1])

    def embed(self, ids: Tensor, visual: Tensor, start: int) -> Tensor:
        """Embeddings [b, n, hidden] of ``ids``, with ``visual`` in place of rows from ``start``."""
        x = self.text.embed_tokens(ids)
        return torch.cat((x[:, :start], visual, x[:, start + visual.shape[1] :]), dim=1)

    def hidden(
        self,
        embeddings: Tensor,
        positions: Tensor,
        mask: Tensor,
        taps: dict[int, Tensor] | None = None,
    ) -> Tensor:
        """Last hidden states [b, n, hidden] (after the final norm).

        Args:
            embeddings: float32 [b, n, hidden].
            positions: long [3, b, n].
            mask: bool [b, rows, n], True where one of the last rows may look at the column; the
                n - rows before them look at all that is not behind them.
            taps: filled with the residual stream [b, n, hidden] behind the layers that it names.
        """
        config = self.text.config
        cos, sin = (a[:, :, None] for a in self.text.rotary_emb(embeddings, positions))
        x = embeddings
        for number, layer in enumerate(self.text.layers):
            x = self._text_layer(
                x,
                cos,
                sin,
                mask,
                config.num_key_value_heads,
                config.rms_norm_eps,
                text_weights(layer),
                self.dtype,
            )
            if taps is not None and number in taps:
                taps[number] = x
        return rms_norm(x, self.text.norm.weight, config.rms_norm_eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 logits [..., vocabulary] of hidden states."""
        return linear(hidden, self.model.lm_head.weight, None, self.dtype).float()


# -------------------------------------------------------------------------------------------- text


#: Rows from which the fused kernel is faster in training than attention written out.
FUSED_ROWS = 384


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention of q [b, heads, n, d] on k, v [b, kv heads, n, d].

    Args:
        mask: bool [b, rows, n] of the last rows; the others are causal.
    """
    first = q.shape[2] - mask.shape[1]
    out = _masked(q[:, :, first:], k, v, mask)
    if not first:
        return out
    q, k, v = q[:, :, :first], k[:, :, :first], v[:, :, :first]
    if first >= FUSED_ROWS:
        causal = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    else:
        triangle = torch.ones(1, first, first, dtype=torch.bool, device=q.device).tril()
        causal = _masked(q, k, v, triangle)
    return torch.cat((causal, out), dim=2)


def _masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Masked attention of q [b, heads, m, d] on k, v [b, kv heads, n, d], written out.

    Query heads that share a key head become rows of one product, so keys and values are not copied.
    Written out because the backward of the CPU's fused kernel takes twice as long on short rows.
    """
    b, kv_heads, n, d = k.shape
    m = q.shape[2]
    scores = (q.reshape(b, kv_heads, -1, d) @ k.transpose(2, 3)).float() * d**-0.5
    scores = scores.view(b, kv_heads, -1, m, n).masked_fill(~mask[:, None, None], float("-inf"))
    shares = torch.softmax(scores, dim=-1).to(q.dtype).view(b, kv_heads, -1, n)
    return (shares @ v).reshape(b, -1, m, d)


def text_layer(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    mask: Tensor,
    kv_heads: int,
    eps: float,
    w: Weights,
    dtype: torch.dtype,
) -> Tensor:
    """One decoder layer on ``x`` [b, n, c]; ``mask`` as in :func:`attend`."""
    norm1, norm2, q_w, k_w, v_w, q_b, k_b, v_b, o_w, gate, up, down = w
    b, n, _ = x.shape
    d = k_w.shape[0] // kv_heads
    qkv = linear(
        rms_norm(x, norm1, eps), torch.cat((q_w, k_w, v_w)), torch.cat((q_b, k_b, v_b)), dtype
    )
    heads = qkv.view(b, n, -1, d)
    q, k, v = heads.split((q_w.shape[0] // d, kv_heads, kv_heads), dim=2)
    q, k, v = (a.transpose(1, 2) for a in (rotate(q, cos, sin), rotate(k, cos, sin), v))
    out = attend(q, k, v, mask).transpose(1, 2).reshape(b, n, -1)
    x = x + linear(out, o_w, None, dtype)
    return x + gated_mlp(rms_norm(x, norm2, eps), (gate, up, down), (None, None, None), dtype)


def text_weights(layer: Any) -> Weights:
    """The parameters of one released decoder layer, in the order of :func:`text_layer`."""
    a, m = layer.self_attn, layer.mlp
    return (
        layer.input_layernorm.weight, layer.post_attention_layernorm.weight,
        a.q_proj.weight, a.k_proj.weight, a.v_proj.weight,
        a.q_proj.bias, a.k_proj.bias, a.v_proj.bias, a.o_proj.weight,
        m.gate_proj.weight, m.up_proj.weight, m.down_proj.weight,
    )  # fmt: skip
