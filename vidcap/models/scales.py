"""Scales of packed weights: each weight has its own, of the shape that unpacking relies on.

Arithmetic goes on with many other shapes (one number goes with any), and would give other weights
without a word. Looks at what the files declare. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vidcap.errors import ModelError
from vidcap.models.unpacked import INTEGERS, PACKED, WORD_BITS, bits_of, method_of, unpacks
from vidcap.models.weights import StoredTensor

#: Name of the tensor that holds the scales of a weight, by method.
_SCALES = {
    "fp8": "weight_scale_inv",
    "compressed-tensors": "weight_scale",
    "awq": "scales",
    "gptq": "scales",
}

#: Formats of numbers that mean nothing without a scale.
_ROUNDED = ("I8", "F8_E4M3", "F8_E5M2")

Tensors = Mapping[str, StoredTensor]


def check_scales(config: Mapping[str, Any], tensors: Tensors, where: str) -> None:
    """Make sure that every weight can be unpacked; those that cannot would become other numbers.

    Args:
        config: the content of a ``config.json``, its scheme checked.
        tensors: of its files, by name.
        where: the checkpoint, for messages.

    Raises:
        ModelError: a scale is missing, does not fit its weight, or groups are in another order.
    """
    quantization = config.get("quantization_config") or {}
    method = method_of(quantization)
    if method is not None and not unpacks(method):
        return
    for name, tensor in tensors.items():
        stem, _, kind = name.rpartition(".")
        rounded = kind == "weight" and tensor.dtype in _ROUNDED
        if method is None:
            if rounded:
                raise ModelError(
                    f"{where} stores {name} as {tensor.dtype} and does not say what that means",
                    hint="quantization_config in config.json is missing",
                )
        elif kind == "weight_g_idx":
            raise ModelError(f"{where}: the groups of {stem} are in an order of their own")
        elif rounded or kind in PACKED:
            _check_weight(stem, tensor, tensors, quantization, where)


def _check_weight(
    stem: str,
    weight: StoredTensor,
    tensors: Tensors,
    quantization: Mapping[str, Any],
    where: str,
) -> None:
    method = method_of(quantization) or ""
    needed = [_SCALES[method], "qzeros"] if method in INTEGERS else [_SCALES[method]]
    lacking = [end for end in needed if f"{stem}.{end}" not in tensors]
    if lacking:
        raise ModelError(f"{where} lacks weights: {stem}.{lacking[0]} for one")
    scale = tensors[f"{stem}.{needed[0]}"]
    if method == "fp8":
        if not _fills(weight, scale, quantization.get("weight_block_size")):
            raise ModelError(
                f"{where}: {stem} does not consist of whole blocks, transformers cannot unpack it"
            )
        return
    if method in INTEGERS:
        fitting = _integers_fit(stem, tensors, quantization)
    else:
        fitting = _rows_fit(weight, scale, quantization)
    if not fitting:
        raise ModelError(f"{where}: the weights of {stem} and their scales do not fit each other")


def _fills(weight: StoredTensor, scale: StoredTensor, block: Any) -> bool:
    """Whether the blocks that the scales stand for are those that transformers takes them for.

    It divides a weight by the number of its scales.
    """
    if len(scale.shape) < 2 or len(weight.shape) != 2:
        return scale.count == 1
    sizes = block if isinstance(block, list) and len(block) == 2 else weight.shape
    if len(scale.shape) > 2 or not all(isinstance(size, int | float) for size in sizes):
        return False
    sides = zip(weight.shape, scale.shape, sizes, strict=True)
    return all(size * count == side or (count == 1 and size > side) for side, count, size in sides)


def _rows_fit(weight: StoredTensor, scale: StoredTensor, quantization: Mapping[str, Any]) -> bool:
    """Whether each row of a weight of compressed-tensors has scales, and groups fill the row."""
    (group,) = quantization["config_groups"].values()
    strategy, size = group["weights"].get("strategy"), group["weights"].get("group_size")
    if strategy not in ("channel", "group"):
        return True
    if len(weight.shape) != 2 or len(scale.shape) != 2 or weight.shape[0] != scale.shape[0]:
        return False
    if strategy == "channel" or weight.dtype in _ROUNDED or not isinstance(size, int):
        return True
    per_word = WORD_BITS // bits_of(quantization)
    return weight.shape[1] == -(-scale.shape[1] * size // per_word)


def _integers_fit(stem: str, tensors: Tensors, quantization: Mapping[str, Any]) -> bool:
    """Whether the tensors of a weight of AWQ or GPTQ have the shapes of one weight's."""
    ends = ("qweight", "qzeros", "scales")
    weight, zeros, scales = parts = [tensors[f"{stem}.{end}"] for end in ends]
    if any(len(part.shape) != 2 for part in parts) or {weight.dtype, zeros.dtype} != {"I32"}:
        return False
    awq, per_word = quantization["quant_method"] == "awq", WORD_BITS // bits_of(quantization)
    rows, columns = weight.shape
    inputs, outputs = (rows, columns * per_word) if awq else (rows * per_word, columns)
    groups, size = scales.shape[0], quantization.get("group_size")
    whole = groups > 0 and inputs % groups == 0
    order = None if awq else tensors.get(f"{stem}.g_idx")
    return (
        scales.shape == (groups, outputs)
        and zeros.shape == (groups, outputs // per_word)
        and (whole if order is None else order.shape == (inputs,))
        and (not isinstance(size, int) or groups == (-(-inputs // size) if size > 0 else 1))
    )
