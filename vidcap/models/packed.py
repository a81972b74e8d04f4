"""Linear layers whose weights lie in memory as the CPU's matrix kernels want them.

For one or a few rows most of the time of a product on a CPU goes into bringing the weights into the
kernel's own order, again with every call. oneDNN, which torch carries, can keep them in that order;
torch.compile's inference mode ("freezing") does so through the same two operators. A packed weight
is a copy, so only models that are small against the machine's memory get one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from vidcap.models.work import LARGEST_PACKED_BYTES

Projection = Callable[[Tensor], Tensor]


class PackedLinear:
    """``x @ weight.T + bias`` with a packed copy of the weight; see :func:`packs`."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None):
        """Args: weight: [out, in] on the CPU; bias: [out] or None."""
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
        self._bias = None if bias is None else bias.detach()

    def __call__(self, x: Tensor) -> Tensor:
        """[..., in] to [..., out]."""
        out: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self._packed, self._bias, "none", [], ""
        )
        return out


class PlainLinear:
    """``x @ weight.T + bias`` on any device."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None):
        """Args: weight: [out, in]; bias: [out] or None."""
        self._weight, self._bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        """[..., in] to [..., out]."""
        return functional.linear(x, self._weight, self._bias)


def linear_maker(weights: Sequence[Tensor]) -> type[PackedLinear] | type[PlainLinear]:
    """The kind of linear layer for the decode step of a model with these weights."""
    size = sum(weight.numel() * weight.element_size() for weight in weights)
    kinds = {(weight.device.type, weight.dtype) for weight in weights}
    plain = all(type(weight) in (Tensor, nn.Parameter) for weight in weights)  # not quantized
    if not plain or len(kinds) != 1 or size > LARGEST_PACKED_BYTES:
        return PlainLinear
    return PackedLinear if packs(*next(iter(kinds))) else PlainLinear


@lru_cache(maxsize=8)
def packs(device: str, dtype: torch.dtype) -> bool:
    """Whether packed layers run here and agree with plain ones on random input."""
    if device != "cpu" or dtype not in (torch.bfloat16, torch.float32):
        return False
    generator = torch.Generator().manual_seed(0)
    weight, bias, x = (
        torch.randn(shape, generator=generator).to(dtype) for shape in ((48, 64), (48,), (1, 3, 64))
    )
    try:
        out = PackedLinear(weight, bias)(x)
    except (RuntimeError, AttributeError):  # another build of torch, another processor
        return False
    expected = functional.linear(x, weight, bias)
    close = 1e-4 if dtype == torch.float32 else 0.1
    return out.shape == expected.shape and torch.allclose(out, expected, atol=close, rtol=close)
