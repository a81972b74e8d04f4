"""Checkpoints in FP8, AWQ, GPTQ and compressed-tensors, as the tools that quantize write them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationScheme
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.models.families import change_json

#: Weights that the tools pack: those of the text model's layers.
_PROJECTION = re.compile(r"(?<!encoder\.)layers\.\d+\..*_proj\.weight$")
BLOCK = 32

FP8 = {
    "quant_method": "fp8",
    "fmt": "e4m3",
    "activation_scheme": "dynamic",
    "weight_block_size": [BLOCK, BLOCK],
    "modules_to_not_convert": ["lm_head", "model.visual", "model.vision_tower"],
}
_TOKENS = {"num_bits": 8, "strategy": "token", "symmetric": True, "dynamic": True}

#: What packs a weight: its tensors by the ends of their names, and the weight that they stand for.
Pack = Callable[[Tensor], tuple[dict[str, Tensor], Tensor]]


def fp8(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """In blocks of 32 x 32, each with a scale."""
    rows, columns = weight.shape
    blocks = weight.view(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK)
    scale = blocks.abs().amax((1, 3)) / 448
    wide = scale[:, None, :, None]
    packed = (blocks / wide).to(torch.float8_e4m3fn)
    tensors = {"weight": packed.view(rows, columns), "weight_scale_inv": scale}
    return tensors, (packed.float() * wide).view(rows, columns)


def fp8_whole(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """With one scale for the whole weight."""
    scale = weight.abs().amax() / 448
    packed = (weight / scale).to(torch.float8_e4m3fn)
    return {"weight": packed, "weight_scale_inv": scale}, packed.float() * scale


def compressed(
    bits: int,
    kind: str,
    group: int | None,
    form: str,
    *,
    symmetric: bool = True,
    activations: bool = False,
) -> tuple[Pack, dict[str, Any]]:
    """A scheme of compressed-tensors, through the package's own compressors."""
    weights = {"num_bits": bits, "type": kind, "symmetric": symmetric, "dynamic": False}
    weights |= {"strategy": "group", "group_size": group} if group else {"strategy": "channel"}
    table: dict[str, Any] = {"targets": ["Linear"], "weights": weights}
    if activations:
        table["input_activations"] = _TOKENS | {"type": kind}
    scheme = QuantizationScheme.model_validate(table)
    compressor = BaseCompressor.get_value_from_registry(form)

    def pack(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        parts = weight.view(len(weight), -1, group or weight.shape[1])
        zero = torch.zeros(parts.shape[:2], dtype=torch.int8)
        if symmetric:
            scale = parts.abs().amax(-1) / (448 if kind == "float" else 2 ** (bits - 1) - 1)
        else:
            low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
            scale = (high - low) / (2**bits - 1)
            zero = (-(2 ** (bits - 1)) - low / scale).round().to(torch.int8)
        state = {"weight": weight, "weight_scale": scale, "weight_zero_point": zero}
        packed = compressor.compress(state, scheme)
        if symmetric:
            packed.pop("weight_zero_point", None)
        return packed, compressor.decompress(packed, scheme)["weight"]

    ignored = ["lm_head", "re:.*visual.*", "re:.*vision_tower.*", "re:.*projector.*"]
    return pack, {
        "quant_method": "compressed-tensors",
        "format": form,
        "quantization_status": "compressed",
        "config_groups": {"group_0": table},
        "ignore": ignored,
        "kv_cache_scheme": None,
        "global_compression_ratio": None,
    }


def _packed(columns: Tensor, bits: int, order: Sequence[int] = ()) -> Tensor:
    """Numbers [rows, n] side by side in words of 32 bits, the first of each in the lowest bits."""
    count = 32 // bits
    words = columns.long().view(len(columns), -1, count)[..., list(order) or slice(None)]
    total = (words << torch.arange(0, 32, bits)).sum(-1)
    return torch.where(total < 2**31, total, total - 2**32).to(torch.int32)


def _integers(weight: Tensor, group: Tensor, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers [in, out], and zero points and scales [groups, out] of the groups of inputs."""
    groups = int(group.max()) + 1
    low, high = (torch.zeros(groups, len(weight)) for _ in range(2))
    for index in range(groups):
        low[index] = weight[:, group == index].amin(1).clamp(max=0)
        high[index] = weight[:, group == index].amax(1).clamp(min=0)
    scale = ((high - low) / (2**bits - 1)).half()
    zero = (-low / scale.float()).round().clamp(1, 2**bits - 1).int()
    numbers = (weight.t() / scale[group].float()).round().int() + zero[group]
    return numbers.clamp(0, 2**bits - 1), zero, scale


def awq(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """In AWQ's GEMM format, whose words have their columns in an order of their own."""
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    group = torch.arange(weight.shape[1]) // BLOCK
    numbers, zero, scale = _integers(weight, group, 4)
    tensors = {"qweight": _packed(numbers, 4, order), "qzeros": _packed(zero, 4, order)}
    rounded = ((numbers - zero[group]) * scale[group].float()).t()
    return tensors | {"scales": scale}, rounded


def gptq(bits: int, *, first: bool, reordered: bool = False) -> Pack:
    """In GPTQ's first or second format; with `reordered`, groups of inputs from all over."""

    def pack(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        inputs = torch.arange(weight.shape[1])
        group = inputs % (len(inputs) // BLOCK) if reordered else inputs // BLOCK
        numbers, zero, scale = _integers(weight, group, bits)
        tensors = {
            "qweight": _packed(numbers.t().contiguous(), bits).t(),
            "qzeros": _packed(zero - 1 if first else zero, bits),
            "scales": scale,
        }
        if reordered:
            tensors["g_idx"] = group.int()
        return tensors, ((numbers - zero[group]) * scale[group].float()).t()

    return pack


_AWQ = {"quant_method": "awq", "bits": 4, "group_size": BLOCK, "zero_point": True}
_GPTQ = {"quant_method": "gptq", "group_size": BLOCK, "sym": False, "desc_act": True}

#: What packs the weights, and what ``config.json`` says about it.
FORMS: dict[str, tuple[Pack, dict[str, Any]]] = {
    "fp8": (fp8, FP8),
    "fp8-whole": (fp8_whole, FP8 | {"weight_block_size": None, "activation_scheme": "static"}),
    "awq": (awq, _AWQ | {"version": "gemm"}),
    "gptq": (gptq(4, first=True), _GPTQ | {"bits": 4}),
    "gptq-v2": (
        gptq(8, first=False, reordered=True),
        _GPTQ | {"bits": 8, "checkpoint_format": "gptq_v2"},
    ),
    "w4a16": compressed(4, "int", 32, "pack-quantized"),
    "w4a16-asymmetric": compressed(4, "int", 32, "pack-quantized", symmetric=False),
    "w8a8": compressed(8, "int", None, "int-quantized", activations=True),
    "fp8-dynamic": compressed(8, "float", None, "float-quantized", activations=True),
}


def write_packed(full: Path, folder: Path, form: str) -> dict[str, Tensor]:
    """A copy of a checkpoint with packed weights.

    Returns:
        the weights that they stand for, by their names in the files of `full`.
    """
    pack, quantization = FORMS[form]
    shutil.copytree(full, folder)
    stored: dict[str, Tensor] = {}
    rounded: dict[str, Tensor] = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if not _PROJECTION.search(name):
            stored[name] = tensor
            continue
        parts, rounded[name] = pack(tensor)
        stem = name.removesuffix("weight")
        stored |= {stem + end: part.contiguous() for end, part in parts.items()}
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    change_json(folder, "config.json", quantization_config=quantization)
    return rounded
