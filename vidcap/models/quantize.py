"""Packing the weights of a text model's layers into 8 or 4 bits, through torchao.

Activations keep their number format, so nothing but the weights is rounded: decoding stays lossless
with respect to the packed target. Vision tower, embedding and output layer stay as they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vidcap.errors import ModelError, UsageError
from vidcap.settings import QuantizeName

#: Weights that share a scale in 4 bits.
_GROUP = 32


def check_quantize(name: QuantizeName, device: torch.device) -> None:
    """Make sure that weights can be packed here, before they are loaded.

    Raises:
        ModelError: torchao is missing or too old.
        UsageError: the device has no such kernels.
    """
    if name == "none":
        return
    if name == "int4" and device.type != "cpu":
        raise UsageError(
            f"--quantize int4 runs on CPUs only, not on {device}", hint="use --quantize int8"
        )
    _config(name)


def quantize_layers(model: Any, name: QuantizeName) -> None:
    """Pack the linear layers of a released model's decoder layers, in place.

    Args:
        model: a ForConditionalGeneration model.
        name: ``int8``: one scale per row; ``int4``: one per 32 weights of a row.
    """
    if name == "none":
        return
    from torchao.quantization import quantize_

    layers = model.model.language_model.layers
    quantize_(layers, _config(name), filter_fn=lambda module, path: _packs(module))


def _packs(module: nn.Module) -> bool:
    return type(module) is nn.Linear and module.in_features % _GROUP == 0


def _config(name: QuantizeName) -> Any:
    try:
        if name == "int8":
            from torchao.quantization import Int8WeightOnlyConfig

            return Int8WeightOnlyConfig()
        from torchao.prototype.quantization.int4 import PrototypeInt4WeightOnlyConfig

        return PrototypeInt4WeightOnlyConfig(group_size=_GROUP)
    except ImportError as error:
        raise ModelError(
            f"--quantize {name} needs torchao 0.18 or newer",
            hint="pip install 'vidcap[quant]'",
        ) from error
