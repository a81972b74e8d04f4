"""Split attention against plain masked attention."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vidcap.engine.attention import AttentionStep, split_attention
from vidcap.engine.kernels import attend, attend_reference, merge
from vidcap.engine.kv import KVCache, KVSpec


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def random_mask(seed: int, rows: int, columns: int) -> torch.Tensor:
    """Additive mask; every row sees at least its first column."""
    mask = torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed)) < 0.5
    mask[:, 0] = True
    return torch.zeros(rows, columns).masked_fill_(~mask, -torch.inf)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    kv_heads=st.sampled_from([1, 2, 3]),
    group=st.sampled_from([1, 2, 7]),
    rows=st.integers(1, 27),
    prefix=st.integers(0, 200),
    tail=st.integers(1, 90),
)
def test_split_equals_dense(
    seed: int, kv_heads: int, group: int, rows: int, prefix: int, tail: int
) -> None:
    heads, dim = kv_heads * group, 16
    query = draw(seed, 1, heads, rows, dim)
    key, value = (draw(seed + i, 1, kv_heads, prefix + tail, dim) for i in (1, 2))
    bias = random_mask(seed, rows, tail)
    full = torch.cat([torch.zeros(rows, prefix), bias], dim=1)
    expected = torch.nn.functional.scaled_dot_product_attention(
        query,
        key.repeat_interleave(group, 1),
        value.repeat_interleave(group, 1),
        attn_mask=full,
        scale=0.3,
    )
    spec = KVSpec(1, kv_heads, group, dim, torch.float32, torch.device("cpu"))
    kv = KVCache(spec, 1, tail)
    if prefix:
        kv.freeze(0, key[:, :, :prefix], value[:, :, :prefix])
    old = tail - rows if tail > rows else 0
    kv.write(0, 0, key[:, :, prefix : prefix + old], value[:, :, prefix : prefix + old])
    new_key, new_value = (t[:, :, prefix + old :] for t in (key, value))
    step = AttentionStep(kv, old, tail, bias=bias[None, None].repeat(1, 1, group, 1))
    out, weights = split_attention(
        SimpleNamespace(layer_idx=0), query, new_key, new_value, None, scaling=0.3, vidcap=step
    )
    assert weights is None
    torch.testing.assert_close(out.transpose(1, 2), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_attend_equals_its_reference(dtype: torch.dtype, tolerance: float) -> None:
    query, key, value = (draw(i, 1, 2, n, 32, dtype=dtype) for i, n in ((1, 54), (2, 77), (3, 77)))
    bias = random_mask(4, 54, 77)[None, None].to(dtype)
    for mask in (None, bias):
        out, lse = attend(query, key, value, 0.2, mask)
        expected, expected_lse = attend_reference(query, key, value, 0.2, mask)
        torch.testing.assert_close(out, expected, atol=tolerance, rtol=tolerance)
        torch.testing.assert_close(lse, expected_lse, atol=tolerance, rtol=tolerance)
        assert lse.dtype == torch.float32


def test_merge_of_far_apart_parts_keeps_the_heavy_one() -> None:
    light, heavy = torch.zeros(1, 1, 1, 4), torch.ones(1, 1, 1, 4)
    low, high = torch.full((1, 1, 1), -500.0), torch.full((1, 1, 1), 500.0)
    torch.testing.assert_close(merge(light, low, heavy, high), heavy)
    torch.testing.assert_close(merge(heavy, high, light, low), heavy)


def test_without_a_step_a_short_causal_query_on_a_long_cache_is_refused() -> None:
    query, key = draw(1, 1, 2, 3, 8), draw(2, 1, 2, 9, 8)
    with pytest.raises(ValueError, match="need a mask"):
        split_attention(SimpleNamespace(layer_idx=0), query, key, key, None, scaling=1.0)


def test_generate_works_on_a_model_with_our_attention(tiny_target: Path) -> None:
    """The fallback without a step: transformers' own loop runs through the registered function."""
    from vidcap.models.loading import load_model

    model = load_model(tiny_target, torch.device("cpu"), torch.float32).model
    ids = torch.arange(20, 40)[None]
    ours = model.generate(ids, max_new_tokens=10, do_sample=False)
    model.set_attn_implementation({"text_config": "sdpa"})
    assert ours.tolist() == model.generate(ids, max_new_tokens=10, do_sample=False).tolist()
