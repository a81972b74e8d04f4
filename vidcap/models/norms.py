"""RMS norms in few operations.

The released modules take eight kernels for a norm, which costs one row of a small model as much as
a matrix product. torch's own ``rms_norm`` is one kernel on CUDA but seven on a CPU. There a layer
norm is one kernel, and a vector beside its negative has mean zero: the layer norm of both together
is the RMS norm of the vector.

In float32 all of them are equal but for the last bit. In half precision the released modules round
twice, before and after the weight, these once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Norm = Callable[[Tensor], Tensor]


def fast_norm(module: Any) -> Norm:
    """The norm of a released module, or the module where it is none that is known.

    Args:
        module: with its weights on the device where it runs.
    """
    weight, eps = getattr(module, "weight", None), getattr(module, "variance_epsilon", None)
    if not isinstance(weight, Tensor) or not isinstance(eps, float) or weight.is_meta:
        return module
    kind = DoubledLayerNorm if weight.device.type == "cpu" else TorchNorm
    norm = kind(weight.detach(), eps)
    return norm if _agrees(norm, module, weight) else module


class TorchNorm:
    """torch's own RMS norm over the last dimension."""

    def __init__(self, weight: Tensor, eps: float):
        """Args: weight: [d]; eps: joins the mean square."""
        self._weight, self._eps, self._shape = weight, eps, tuple(weight.shape)

    def __call__(self, x: Tensor) -> Tensor:
        """[..., d] to [..., d]."""
        return functional.rms_norm(x, self._shape, self._weight, self._eps)


class DoubledLayerNorm:
    """RMS norm over the last dimension by way of a layer norm."""

    def __init__(self, weight: Tensor, eps: float):
        """Args: weight: [d]; eps: joins the mean square."""
        self._size, self._shape, self._eps = len(weight), (2 * len(weight),), eps
        self._weight = torch.cat((weight, weight))

    def __call__(self, x: Tensor) -> Tensor:
        """[..., d] to [..., d], a view into the rows of a tensor twice as wide."""
        both = torch.cat((x, -x), -1)
        return torch.layer_norm(both, self._shape, self._weight, None, self._eps)[..., : self._size]


def _agrees(norm: Norm, module: Any, weight: Tensor) -> bool:
    """Whether a norm gives what the module does on random input."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, len(weight), generator=generator).to(weight)
    close = 1e-5 if weight.dtype == torch.float32 else 3e-2
    with torch.no_grad():
        return torch.allclose(norm(x), module(x), atol=close, rtol=close)
