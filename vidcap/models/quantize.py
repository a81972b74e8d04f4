"""Packing the weights of a text model's layers into 8 or 4 bits, through torchao.

Activations keep their number format, so nothing but the weights is rounded: decoding stays lossless
with respect to the packed target. Vision tower, embedding and output layer stay as they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vidcap.errors import ModelError, UsageError
from vidcap.models.checkpoint import Checkpoint
from vidcap.settings import QuantizeName

#: Weights that share a scale in 4 bits.
_GROUP = 32

#: Rows of weights that bitsandbytes' kernel for CPUs takes at once.
_BLOCK_ROWS = 32


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


def check_unpacked(name: QuantizeName, checkpoint: Checkpoint) -> None:
    """Make sure that weights which are to be packed are not packed already.

    Raises:
        UsageError: they are.
    """
    if name != "none" and checkpoint.quantization is not None:
        raise UsageError(
            f"--quantize {name}: {checkpoint.folder} is quantized by {checkpoint.quantization} "
            "already"
        )


def check_packed_widths(model: Any, checkpoint: Checkpoint) -> None:
    """Make sure that bitsandbytes can run the layers of a loaded model on a CPU.

    Its kernel there takes whole blocks of weights only, and says so when a layer runs first.

    Raises:
        ModelError: it cannot.
    """
    for name, module in model.named_modules():
        if type(module).__name__ != "Linear4bit" or module.weight.device.type != "cpu":
            continue
        block = module.weight.quant_state.blocksize
        if module.in_features % block or module.out_features % _BLOCK_ROWS:
            raise ModelError(
                f"{checkpoint.folder}: {name} is {module.out_features} by {module.in_features}, "
                f"bitsandbytes needs multiples of {_BLOCK_ROWS} by {block} on a CPU",
                hint="it runs on a GPU",
            )


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
