"""Norms in few operations against the released modules."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLRMSNorm
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRMSNorm

from vidcap.models.norms import DoubledLayerNorm, TorchNorm, fast_norm

MODULES = [Qwen2RMSNorm, Qwen2_5_VLRMSNorm, Qwen3VLTextRMSNorm]


def released(kind: type[nn.Module], dtype: torch.dtype, size: int = 48) -> nn.Module:
    module = kind(size)
    with torch.no_grad():
        module.weight.copy_(torch.rand(size, generator=torch.Generator().manual_seed(1)) + 0.5)
    return module.to(dtype)


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("size", [1e-3, 1.0, 300.0])
@torch.inference_mode()
def test_float32_equals_the_released_norm(kind: type[nn.Module], size: float) -> None:
    module = released(kind, torch.float32)
    norm = fast_norm(module)
    assert isinstance(norm, DoubledLayerNorm)
    x = torch.randn(2, 7, 48, generator=torch.Generator().manual_seed(2)) * size + 0.3 * size
    for rows in (x, x[:, 1:3], x.transpose(0, 1)):
        torch.testing.assert_close(norm(rows), module(rows), atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_bfloat16_is_nearer_to_the_exact_norm_than_the_released_one() -> None:
    module = released(Qwen2RMSNorm, torch.bfloat16)
    norm = fast_norm(module)
    x = torch.randn(50, 48, generator=torch.Generator().manual_seed(3)).bfloat16()
    wide = x.double()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    exact = wide * scale * module.weight.double()
    ours, theirs = ((make(x).double() - exact).abs().mean() for make in (norm, module))
    assert 0 < ours < theirs


@torch.inference_mode()
def test_torch_norm_equals_the_released_norm() -> None:
    module = released(Qwen2RMSNorm, torch.float32)
    norm = TorchNorm(module.weight.detach(), module.variance_epsilon)
    x = torch.randn(2, 7, 48)
    torch.testing.assert_close(norm(x), module(x), atol=1e-5, rtol=1e-5)


def test_a_norm_of_another_kind_stays_as_it_is() -> None:
    class Shifted(Qwen2RMSNorm):
        def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
            return super().forward(hidden_states) + 0.1

    for module in (nn.Identity(), nn.LayerNorm(8), Shifted(8)):
        assert fast_norm(module) is module
