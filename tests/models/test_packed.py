"""Packed linear layers: equal to plain ones, and only where they run."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from vidcap.models import packed
from vidcap.models.packed import PackedLinear, PlainLinear, linear_maker, packs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 7, 26])
def test_a_packed_layer_is_the_plain_one(dtype: torch.dtype, rows: int) -> None:
    torch.manual_seed(rows)
    weight, bias, x = torch.randn(96, 64), torch.randn(96), torch.randn(2, rows, 64)
    exact = functional.linear(x.double(), weight.double(), bias.double())
    for make in (PackedLinear, PlainLinear):
        out = make(weight.to(dtype), bias.to(dtype))(x.to(dtype))
        assert out.dtype == dtype
        assert out.shape == exact.shape
        assert (out.double() - exact).abs().max() < (1e-4 if dtype == torch.float32 else 0.3)
    torch.testing.assert_close(PackedLinear(weight)(x), x @ weight.T, rtol=1e-4, atol=1e-4)


def test_a_packed_layer_keeps_its_own_weights() -> None:
    weight = torch.randn(8, 8)
    layer, before = PackedLinear(weight), weight.clone()
    weight.zero_()
    x = torch.randn(1, 1, 8)
    torch.testing.assert_close(layer(x), x @ before.T, rtol=1e-4, atol=1e-4)


def test_small_models_on_a_cpu_are_packed_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = [nn.Parameter(torch.randn(8, 8)), torch.randn(4, 8)]
    assert packs("cpu", torch.float32)
    assert linear_maker(weights) is PackedLinear
    assert linear_maker([*weights, torch.randn(4, 8).half()]) is PlainLinear
    assert linear_maker([weight.to("meta") for weight in weights]) is PlainLinear
    assert linear_maker([torch.randn(4, 4).half()]) is PlainLinear
    monkeypatch.setattr(packed, "LARGEST_PACKED_BYTES", 300)
    assert linear_maker(weights) is PlainLinear


def test_where_the_operators_fail_plain_layers_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: PackedLinear, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("not on this processor")

    packs.cache_clear()
    monkeypatch.setattr(PackedLinear, "__call__", broken)
    assert not packs("cpu", torch.float32)
    packs.cache_clear()
