"""Loading a pair: weights into memory, adapters around them, and the check that they match."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any

import torch

from vidcap.engine.attention import ATTENTION_NAME, register
from vidcap.errors import ModelError
from vidcap.models.adapter import ReleasedVideoModel
from vidcap.models.checkpoint import Checkpoint, first_line, read_checkpoint
from vidcap.models.devices import device_map, target_placement, torch_device, torch_dtype
from vidcap.models.kernels import attention_words, check_attention, vision_kernel
from vidcap.models.match import check_match
from vidcap.models.pair import PairFolders
from vidcap.models.placement import Placement
from vidcap.models.protocol import VideoModel
from vidcap.models.quantize import (
    check_packed_widths,
    check_quantize,
    check_unpacked,
    quantize_layers,
)
from vidcap.models.shared_tower import SharedTower, share_tower
from vidcap.models.weights import stored_tensors
from vidcap.settings import AttentionName, ModelSettings, QuantizeName


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """Both models, ready to run.

    Attributes:
        target, draft: adapters; draft None for plain decoding.
        device, dtype: the target's, as torch names them; several devices joined by commas.
        attention: what computes the attention, for the profile and the record.
        warnings: what the user should know about how they were loaded.
        tower: the vision tower, where both have the same one.
    """

    target: VideoModel
    draft: VideoModel | None
    device: str
    dtype: str
    attention: str
    warnings: tuple[str, ...] = ()
    tower: SharedTower | None = None


def load_pair_folders(folders: PairFolders, settings: ModelSettings) -> LoadedPair:
    """Load the pair, once everything but the weights is known to match.

    Raises:
        ModelError: unknown family, broken checkpoint, no such device or no room on it, a pair that
            does not match, an attention kernel that does not run.
        UsageError: a device name torch does not know.
    """
    torch.set_num_threads(settings.threads or os.cpu_count() or 1)
    placement = target_placement(folders, settings)
    device = torch.device(placement.first)
    draft_device = torch_device(settings.draft_device) if settings.draft_device else device
    dtype = torch_dtype(settings.dtype, device)
    check_quantize(settings.quantize, device)
    check_quantize(settings.draft_quantize, draft_device)
    checkpoint = read_checkpoint(folders.target)
    draft_checkpoint = read_checkpoint(folders.draft) if folders.draft else None
    if draft_checkpoint is not None:
        check_match(checkpoint, draft_checkpoint)
        check_unpacked(settings.draft_quantize, draft_checkpoint)
    check_unpacked(settings.quantize, checkpoint)
    check_attention(settings.attention, checkpoint, device, dtype)
    if draft_checkpoint is not None:
        check_attention(settings.attention, draft_checkpoint, draft_device, dtype)
    target = load_weights(checkpoint, placement, dtype, settings.quantize, settings.attention)
    draft = None
    if draft_checkpoint is not None:
        draft = load_weights(
            draft_checkpoint,
            Placement(str(draft_device)),
            dtype,
            settings.draft_quantize,
            settings.attention,
        )
    return LoadedPair(
        target,
        draft,
        device=",".join(placement.devices),
        dtype=_dtype_name(dtype, checkpoint.quantization or settings.quantize),
        attention=attention_words(settings.attention, checkpoint, device, dtype),
        warnings=placement.warnings,
        tower=None if draft is None else share_tower(target, draft),
    )


def load_model(folder: Path, device: torch.device, dtype: torch.dtype) -> Any:
    """Load one checkpoint in the hub's layout; returns the adapter of its family.

    Raises:
        ModelError: unknown family, or transformers cannot load it.
    """
    return load_weights(read_checkpoint(folder), Placement(str(device)), dtype)


def load_weights(
    checkpoint: Checkpoint,
    placement: Placement,
    dtype: torch.dtype,
    quantize: QuantizeName = "none",
    attention: AttentionName = "auto",
) -> ReleasedVideoModel:
    """Load the weights of a checkpoint and put its family's adapter around them.

    Args:
        checkpoint: everything but the weights.
        placement, dtype: where to and as what.
        quantize: whether to pack the weights once they are there.
        attention: see :class:`vidcap.settings.ModelSettings`.

    Raises:
        ModelError: the weights are broken, do not belong to the configuration, or are too large.
    """
    from transformers import AutoModelForImageTextToText
    from transformers.utils import logging

    register()
    logging.disable_progress_bar()
    folder, device = checkpoint.folder, torch.device(placement.first)
    skeleton = _check_size(checkpoint)
    try:
        with _silent_dispatch():
            loaded: Any = AutoModelForImageTextToText.from_pretrained(
                folder,
                config=checkpoint.config,
                dtype=dtype,
                device_map=device_map(skeleton, placement) if placement.layers else device,
                attn_implementation={
                    "text_config": ATTENTION_NAME,
                    "vision_config": vision_kernel(attention, device, dtype),
                },
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise ModelError(f"not enough memory on {device} for {folder}") from error
    except Exception as error:
        # Whatever broken weights make transformers raise is one line to the user.
        raise ModelError(f"{folder} cannot be loaded: {first_line(error)}") from error
    model, report = loaded
    if report["missing_keys"]:
        # transformers would go on with random numbers in their place.
        raise ModelError(f"{folder} lacks weights: {sorted(report['missing_keys'])[0]} for one")
    check_packed_widths(model, checkpoint)
    quantize_layers(model, quantize)
    return _adapter(checkpoint)(checkpoint, model.eval(), attention)


def _adapter(checkpoint: Checkpoint) -> type[ReleasedVideoModel]:
    module, _, name = checkpoint.family.adapter.partition(":")
    adapter: type[ReleasedVideoModel] = getattr(importlib.import_module(module), name)
    return adapter


@contextmanager
def _silent_dispatch() -> Iterator[None]:
    """Without what accelerate and bitsandbytes say about ways that were not taken."""
    for name in ("accelerate.big_modeling", "bitsandbytes"):
        getLogger(name).setLevel(ERROR)
    with warnings.catch_warnings():
        # It warns of parameters that belong to no module, which it places all the same.
        warnings.filterwarnings("ignore", "The following device_map keys do not match")
        yield


def _check_size(checkpoint: Checkpoint) -> Any:
    """Refuse a configuration that describes more than its files hold, before memory is taken.

    A tensor that no file has would be filled with random numbers.

    Returns:
        the model without its weights.
    """
    from transformers import AutoModelForImageTextToText

    stored = stored_tensors(checkpoint.folder)
    config, folder = checkpoint.config, checkpoint.folder
    try:
        with torch.device("meta"):
            model = AutoModelForImageTextToText.from_config(config)
        model.tie_weights()
    except Exception as error:
        raise ModelError(f"{folder} cannot be loaded: {first_line(error)}") from error
    if checkpoint.quantization is not None:
        return model
    described = sum(weight.numel() for weight in model.parameters())
    held = sum(tensor.count for tensor in stored.values())
    if described > held:
        raise ModelError(
            f"{folder} describes {described} parameters, its files hold {held}",
            hint="configuration and weights come from different models, or files are missing",
        )
    return model


def _dtype_name(dtype: torch.dtype, quantize: str) -> str:
    """As the record has it: the format of activations, and that of packed weights."""
    name = str(dtype).removeprefix("torch.")
    return name if quantize == "none" else f"{name}, {quantize} weights"
