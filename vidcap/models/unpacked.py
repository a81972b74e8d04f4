"""Checkpoints whose weights are unpacked when they are loaded, and what must hold for that.

Kernels for such weights run on some GPUs only. Unpacked, the model is a full one with rounded
weights: every way through it is open, and all methods decode the same model. What else is rounded
(activations in W8A8, keys and values) is not rounded then. transformers unpacks FP8 and
compressed-tensors while it loads, :mod:`vidcap.models.integers` AWQ and GPTQ. Imports no torch.

Unpacking believes what the files say; whatever would go wrong without a word is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vidcap.errors import ModelError
from vidcap.models.weights import StoredTensor

#: Name of the tensor that holds the scales of a weight, by method.
_SCALES = {
    "fp8": "weight_scale_inv",
    "compressed-tensors": "weight_scale",
    "awq": "scales",
    "gptq": "scales",
}

#: Methods whose weights vidcap unpacks itself.
INTEGERS = ("awq", "gptq")

#: The tensors that stand for one weight in AWQ's and GPTQ's files.
PARTS = ("qweight", "qzeros", "scales", "g_idx")

#: Formats of compressed-tensors that were tried.
_FORMATS = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized")

#: Formats of numbers that mean nothing without a scale.
_ROUNDED = ("I8", "F8_E4M3", "F8_E5M2")

#: Tensors of packed weights.
_PACKED = ("weight_packed", "qweight")

#: How the names of tensors end that belong to a weight and are none.
_HELPERS = ("scale", "scale_inv", "zero_point", "weight_shape", *PARTS)

_PACKED_BITS = 32


def unpacks(method: str | None) -> bool:
    """Whether weights that are quantized by a method are unpacked when they are loaded."""
    return method in _SCALES


def ask_to_unpack(config: Any) -> None:
    """Have transformers unpack weights where it can, whatever their configuration says.

    Args:
        config: as ``AutoConfig`` reads it; changed in place.
    """
    asked = getattr(config, "quantization_config", None)
    method = _method(asked)
    if isinstance(asked, dict) and unpacks(method) and method not in INTEGERS:
        rest = {name: value for name, value in asked.items() if name != "run_compressed"}
        config.quantization_config = rest | {"dequantize": True}


def check_scheme(quantization: Mapping[str, Any], where: str) -> None:
    """Make sure that weights can be unpacked, as far as their configuration tells.

    Args:
        quantization: ``quantization_config`` of a ``config.json``.
        where: the checkpoint, for messages.

    Raises:
        ModelError: they cannot, or would be unpacked wrongly.
    """
    method = _method(quantization)
    if method == "compressed-tensors":
        _check_compressed(quantization, where)
    elif method in INTEGERS and not _is_known(method, quantization):
        raise ModelError(
            f"{where} is quantized by {method} in a form that was never tried",
            hint="supported are AWQ's GEMM format with 4 bits, GPTQ's with 4 or 8",
        )


def _check_compressed(quantization: Mapping[str, Any], where: str) -> None:
    found = quantization.get("config_groups")
    groups = list(found.values()) if isinstance(found, Mapping) else []
    scheme = groups[0] if groups else None
    if not isinstance(scheme, Mapping) or not isinstance(scheme.get("weights"), Mapping):
        raise ModelError(f"the configuration in {where} is broken: no scheme of its weights")
    name = scheme.get("format") or quantization.get("format")
    why = None
    if len(groups) > 1:
        why = f"in {len(groups)} ways, and transformers unpacks all weights in one"
    elif name not in _FORMATS:
        why = f"in the format {name}, which was never tried"
    elif quantization.get("transform_config"):
        why = "with transforms, which transformers does not undo when it unpacks"
    elif _is_sparse(quantization):
        why = "with sparse weights, which transformers no longer reads"
    if why is not None:
        raise ModelError(
            f"{where} is quantized by compressed-tensors {why}",
            hint="supported are one scheme for all layers, in " + ", ".join(_FORMATS),
        )


def check_scales(
    config: Mapping[str, Any], tensors: Mapping[str, StoredTensor], where: str
) -> None:
    """Make sure that every weight can be unpacked; those that cannot would become other numbers.

    Args:
        config: the content of a ``config.json``.
        tensors: of its files, by name.
        where: the checkpoint, for messages.

    Raises:
        ModelError: a scale is missing, does not fit its weight, or groups are in another order.
    """
    quantization = config.get("quantization_config")
    method = _method(quantization)
    if not isinstance(quantization, Mapping) or method not in _SCALES:
        return
    needed = [_SCALES[method], "qzeros"] if method in INTEGERS else [_SCALES[method]]
    for name, tensor in tensors.items():
        stem, _, kind = name.rpartition(".")
        if kind == "weight_g_idx":
            raise ModelError(f"{where}: the groups of {stem} are in an order of their own")
        if kind not in _PACKED and not (kind == "weight" and tensor.dtype in _ROUNDED):
            continue
        lacking = [end for end in needed if f"{stem}.{end}" not in tensors]
        if lacking:
            raise ModelError(f"{where} lacks weights: {stem}.{lacking[0]} for one")
        scale = tensors[f"{stem}.{needed[0]}"]
        if method == "fp8" and not _fills(tensor, scale, quantization.get("weight_block_size")):
            raise ModelError(
                f"{where}: {stem} does not consist of whole blocks, transformers cannot unpack it"
            )


def count_parameters(config: Mapping[str, Any], tensors: Mapping[str, StoredTensor]) -> int:
    """Numbers in the files of a checkpoint, after unpacking where it is unpacked.

    Args:
        config: the content of its ``config.json``.
        tensors: of its files, by name.
    """
    quantization = config.get("quantization_config")
    if not isinstance(quantization, Mapping) or not unpacks(_method(quantization)):
        return sum(tensor.count for tensor in tensors.values())
    total = 0
    for name, tensor in tensors.items():
        kind = name.rpartition(".")[2]
        if kind in _PACKED:
            total += tensor.count * _PACKED_BITS // _bits(quantization)
        elif not kind.endswith(_HELPERS):
            total += tensor.count
    return total


def _method(quantization: Any) -> str | None:
    known = quantization if isinstance(quantization, Mapping) else {}
    method = known.get("quant_method")
    return None if method is None else str(method).replace("_", "-")


def _is_sparse(quantization: Mapping[str, Any]) -> bool:
    sparsity = quantization.get("sparsity_config")
    return isinstance(sparsity, Mapping) and sparsity.get("format", "dense") != "dense"


def _is_known(method: str, quantization: Mapping[str, Any]) -> bool:
    """Whether :mod:`vidcap.models.integers` can unpack a form of AWQ or GPTQ."""
    bits = quantization.get("bits")
    if method == "awq":
        return bits == 4 and str(quantization.get("version", "gemm")).lower() == "gemm"
    form = quantization.get("checkpoint_format") or "gptq"
    return bits in (4, 8) and form in ("gptq", "gptq_v2") and not quantization.get("dynamic")


def _bits(quantization: Mapping[str, Any]) -> int:
    try:
        if "bits" in quantization:
            bits = int(quantization["bits"])
        else:
            (group,) = quantization["config_groups"].values()
            bits = int(group["weights"]["num_bits"])
    except (AttributeError, KeyError, TypeError, ValueError):
        bits = 0
    return bits if 0 < bits < _PACKED_BITS else _PACKED_BITS


def _fills(weight: StoredTensor, scale: StoredTensor, block: Any) -> bool:
    """Whether the blocks that the scales stand for are those that transformers takes them for.

    It divides a weight by the number of its scales.
    """
    if len(scale.shape) < 2 or len(weight.shape) != 2:
        return scale.count == 1
    sizes = block if isinstance(block, list) and len(block) == 2 else (0, 0)
    sides = zip(weight.shape, scale.shape, sizes, strict=True)
    return all(count == 1 or size * count == side for side, count, size in sides)
