"""Kernels of attention: torch's flash kernels where they run, matrix products elsewhere."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from vidcap.settings import AttentionName

#: Query rows that the flash kernel of CPUs takes as one piece of work.
BLOCK_ROWS = 32

#: Query rows whose scores the reference holds at once.
_REFERENCE_ROWS = 256


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
        bias: additive mask that expands to [b, kv_heads, rows, n], or None; no row may be masked
            completely.
        kernel: ``sdpa`` for plain products, else the flash kernel where it runs.

    Returns:
        output [b, kv_heads, rows, d] in the query's dtype, and lse [b, kv_heads, rows] in float32.
    """
    on_cpu = query.device.type == "cpu"
    if not takes_flash(query, kernel) or (bias is not None and not on_cpu):
        return attend_reference(query, key, value, scale, bias)
    if on_cpu:
        return _flash_on_cpu(query, key, value, scale, bias)
    return _flash_on_cuda(query, key, value, scale)


def takes_flash(query: Tensor, kernel: AttentionName) -> bool:
    """Whether rows without a mask go through a flash kernel."""
    return kernel != "sdpa" and flash_works(query.device, query.dtype, query.shape[-1])


def _flash_on_cpu(
    query: Tensor, key: Tensor, value: Tensor, scale: float, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    rows = query.shape[2]
    # A block of one row in half precision takes two to three times as long as one of two rows.
    lonely = rows % BLOCK_ROWS == 1 and query.dtype != torch.float32
    if lonely:
        query = _with_spare_row(query)
        if bias is not None and bias.shape[2] > 1:
            bias = _with_spare_row(bias)
    out, lse = torch._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, False, attn_mask=bias, scale=scale
    )
    return (out[:, :, :rows], lse[:, :, :rows]) if lonely else (out, lse)


def _with_spare_row(rows: Tensor) -> Tensor:
    """Rows [b, heads, n, d] and the last one again."""
    if rows.shape[2] == 1:
        return rows.expand(-1, -1, 2, -1)
    return torch.cat((rows, rows[:, :, -1:]), dim=2)


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
    """Join two partial attentions over disjoint keys.

    Args:
        out1, out2: [b, kv_heads, rows, d].
        lse1, lse2: float32 [b, kv_heads, rows].
    """
    share = torch.sigmoid(lse2 - lse1).unsqueeze(-1)
    return torch.lerp(out1.float(), out2.float(), share).to(out1.dtype)
