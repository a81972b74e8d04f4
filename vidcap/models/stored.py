"""Checkpoints whose weights are quantized already: which of them are loaded, and why no others.

A method is offered where it runs through transformers and treats every row of a step by itself, so
that a tree of drafts gets the numbers that single tokens get: lossless methods stay lossless.
Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from vidcap.errors import ModelError
from vidcap.models.unpacked import check_scheme, unpacks

_SUPPORTED = (
    "torchao, bitsandbytes in 4 bits, AWQ, GPTQ, FP8 and compressed-tensors can be loaded; "
    "--quantize packs full checkpoints"
)

#: Packages that load what the methods have quantized, None where none is needed.
_PACKAGES = {
    "torchao": "torchao",
    "bitsandbytes 4-bit": "bitsandbytes",
    "compressed-tensors": "compressed-tensors",
    "awq": None,
    "gptq": None,
    "fp8": None,
}

#: Why other methods are refused, by their name in ``config.json``.
_REFUSED = {
    "fbgemm-fp8": "its kernels run on GPUs",
    "mxfp4": "its kernels run on GPUs",
}


def stored_quantization(config: Mapping[str, Any]) -> str | None:
    """How the weights of a checkpoint are quantized, None for not at all.

    Args:
        config: the content of its ``config.json``.

    Returns:
        transformers' name of the method, for bitsandbytes with the bits.
    """
    found = config.get("quantization_config")
    if not found:
        return None
    known = found if isinstance(found, Mapping) else {}
    method = str(known.get("quant_method", "an unknown method")).replace("_", "-")
    if method == "bitsandbytes" or known.get("load_in_4bit") or known.get("load_in_8bit"):
        return f"bitsandbytes {4 if known.get('load_in_4bit') else 8}-bit"
    return method


def words_of(method: str | None) -> str | None:
    """How a record names the weights of a loaded checkpoint, None where nothing is to be said."""
    return f"unpacked {method}" if unpacks(method) else method


def check_stored(config: Mapping[str, Any], where: str) -> None:
    """Make sure that the weights of a checkpoint can be loaded as they are quantized.

    Raises:
        ModelError: the method is not supported, or its package is missing.
    """
    method = stored_quantization(config)
    if method is None:
        return
    if method == "bitsandbytes 8-bit":
        raise ModelError(
            f"{where} is quantized by bitsandbytes in 8 bits, which rounds the tokens of a step "
            "together: no method could be lossless",
            hint=_SUPPORTED,
        )
    if method not in _PACKAGES:
        why = _REFUSED.get(method, "it was never tried")
        raise ModelError(f"{where} is quantized by {method}: {why}", hint=_SUPPORTED)
    if unpacks(method):
        check_scheme(config["quantization_config"], where)
    package = _PACKAGES[method]
    if package is not None and find_spec(package.replace("-", "_")) is None:
        raise ModelError(
            f"{where} is quantized by {method}: the package {package} is missing",
            hint="pip install 'vidcap[quant]'",
        )
