"""Weights of AWQ and GPTQ checkpoints, unpacked into full ones.

transformers loads such checkpoints through gptqmodel, which is built from its sources and compiles
kernels while it runs. The files themselves are plain: integers of a few bits beside one another in
32-bit words, and per group of inputs a scale and a zero point (Lin et al., arXiv 2306.00978, and
Frantar et al., arXiv 2210.17323). Weights are computed in float32 and rounded once, to the number
format that the model runs in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from vidcap.models.checkpoint import Checkpoint
from vidcap.models.unpacked import PARTS
from vidcap.models.weights import weight_files

_WORD_BITS = 32

#: The column of a word's eight that each of its 4-bit numbers belongs to, in AWQ's GEMM format.
_AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)


def unpacked_state(checkpoint: Checkpoint, dtype: torch.dtype) -> dict[str, Tensor]:
    """All weights of a checkpoint by the names of its files, packed ones as ``weight``.

    Args:
        checkpoint: quantized by AWQ or GPTQ, its headers checked.
        dtype: of the unpacked weights; others stay as they are.
    """
    quantization = checkpoint.config.quantization_config
    state: dict[str, Tensor] = {}
    parts: dict[str, dict[str, Tensor]] = {}
    for file in weight_files(checkpoint.folder):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118, it is no dictionary
                stem, _, kind = name.rpartition(".")
                if kind in PARTS:
                    parts.setdefault(stem, {})[kind] = tensors.get_tensor(name)
                else:
                    state[name] = tensors.get_tensor(name)
    unpack = unpack_awq if quantization["quant_method"] == "awq" else unpack_gptq
    for stem in list(parts):
        state[f"{stem}.weight"] = unpack(parts.pop(stem), quantization).to(dtype)
    return state


def unpack_awq(parts: Mapping[str, Tensor], quantization: Mapping[str, Any]) -> Tensor:
    """A weight in AWQ's GEMM format, float32[out, in].

    Args:
        parts: ``qweight`` int32[in, out / 8], ``qzeros`` int32[groups, out / 8], ``scales``
            [groups, out].
        quantization: not looked at; there are always 4 bits.
    """
    order = torch.tensor(_AWQ_COLUMNS).argsort()
    numbers, zeros = (
        _numbers(parts[name], 4)[..., order].flatten(1) for name in ("qweight", "qzeros")
    )
    scales = parts["scales"].float()
    size = len(numbers) // len(scales)
    steps = numbers.view(len(scales), size, -1) - zeros[:, None]
    return (steps * scales[:, None]).flatten(0, 1).t().contiguous()


def unpack_gptq(parts: Mapping[str, Tensor], quantization: Mapping[str, Any]) -> Tensor:
    """A weight in GPTQ's format, float32[out, in].

    Args:
        parts: ``qweight`` int32[in * bits / 32, out], ``qzeros`` int32[groups, out * bits / 32],
            ``scales`` [groups, out], and ``g_idx`` int32[in], the group of each input, where they
            are not in order.
        quantization: ``bits`` and ``checkpoint_format``; zero points of the first format are stored
            less one.

    Raises:
        IndexError, ValueError: ``g_idx`` names groups that there are none of.
    """
    bits = int(quantization["bits"])
    numbers = _numbers(parts["qweight"].t().contiguous(), bits).flatten(1).t()
    zeros = _numbers(parts["qzeros"], bits).flatten(1)
    if quantization.get("checkpoint_format") != "gptq_v2":
        zeros = (zeros + 1) & (2**bits - 1)
    scales = parts["scales"].float()
    group = parts.get("g_idx")
    if group is None:
        group = torch.arange(len(numbers)) // (len(numbers) // len(scales))
    group = group.long()
    if bool((group < 0).any()):
        raise ValueError("g_idx names groups below 0")
    return ((numbers - zeros[group]) * scales[group]).t().contiguous()


def _numbers(words: Tensor, bits: int) -> Tensor:
    """The numbers in each word, lowest bits first: int32[..., 32 / bits]."""
    shifts = torch.arange(0, _WORD_BITS, bits, dtype=torch.int32)
    return (words[..., None] >> shifts) & (2**bits - 1)
