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

#: Methods whose weights are unpacked.
_METHODS = ("fp8", "compressed-tensors", "awq", "gptq")

#: Methods whose weights vidcap unpacks itself.
INTEGERS = ("awq", "gptq")

#: The tensors that stand for one weight in AWQ's and GPTQ's files.
PARTS = ("qweight", "qzeros", "scales", "g_idx")

#: Formats of compressed-tensors that were tried.
_FORMATS = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized")

#: Tensors of packed weights.
PACKED = ("weight_packed", "qweight")

#: How the names of tensors end that belong to a weight and are none.
_HELPERS = ("scale", "scale_inv", "zero_point", "weight_shape", *PARTS)

#: Bits of the words that packed weights are in.
WORD_BITS = 32


def unpacks(method: str | None) -> bool:
    """Whether weights that are quantized by a method are unpacked when they are loaded."""
    return method in _METHODS


def ask_to_unpack(config: Any) -> None:
    """Have transformers unpack weights where it can, whatever their configuration says.

    Args:
        config: as ``AutoConfig`` reads it; changed in place.
    """
    asked = getattr(config, "quantization_config", None)
    method = method_of(asked)
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
    method = method_of(quantization)
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


def count_parameters(config: Mapping[str, Any], tensors: Mapping[str, StoredTensor]) -> int:
    """Numbers in the files of a checkpoint, after unpacking where it is unpacked.

    Args:
        config: the content of its ``config.json``.
        tensors: of its files, by name.
    """
    quantization = config.get("quantization_config")
    if not isinstance(quantization, Mapping) or not unpacks(method_of(quantization)):
        return sum(tensor.count for tensor in tensors.values())
    total = 0
    for name, tensor in tensors.items():
        kind = name.rpartition(".")[2]
        if kind in PACKED:
            total += tensor.count * WORD_BITS // bits_of(quantization)
        elif not kind.endswith(_HELPERS):
            total += tensor.count
    return total


def method_of(quantization: Any) -> str | None:
    """How a ``quantization_config`` names its method, None where it names none."""
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


def bits_of(quantization: Mapping[str, Any]) -> int:
    """Bits of each packed number; those of a whole word where nothing sensible is said."""
    try:
        if "bits" in quantization:
            bits = int(quantization["bits"])
        else:
            (group,) = quantization["config_groups"].values()
            bits = int(group["weights"]["num_bits"])
    except (AttributeError, KeyError, TypeError, ValueError):
        bits = 0
    return bits if 0 < bits < WORD_BITS else WORD_BITS
