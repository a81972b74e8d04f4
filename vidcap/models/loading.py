"""Loading a pair: weights into memory, adapters around them, and the check that they match."""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any

import torch

from vidcap.engine.attention import ATTENTION_NAME, register
from vidcap.engine.shards import Shards
from vidcap.errors import ModelError
from vidcap.models.adapter import ReleasedVideoModel
from vidcap.models.checkpoint import Checkpoint, first_line, read_checkpoint
from vidcap.models.cutting import cutting_arguments, unwrap_parts
from vidcap.models.devices import device_map, target_placement, torch_device, torch_dtype
from vidcap.models.integers import unpacked_state
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
from vidcap.models.ranks import Ranks, ShardedLanguageModel, start_ranks
from vidcap.models.shared_tower import SharedTower, share_tower
from vidcap.models.stored import words_of
from vidcap.models.unpacked import INTEGERS, count_parameters, unpacks
from vidcap.models.weights import stored_tensors
from vidcap.settings import AttentionName, ModelSettings, QuantizeName
from vidcap.threads import available_threads


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """Both models, ready to run.

    Attributes:
        target, draft: adapters; draft None for plain decoding.
        device, dtype: the target's, as torch names them; several devices joined by commas.
        attention: what computes the attention, for the profile and the record.
        warnings: what the user should know about how they were loaded.
        tower: the vision tower, where both have the same one.
        ranks: the processes that share the target's layers, None where there is one.
    """

    target: VideoModel
    draft: VideoModel | None
    device: str
    dtype: str
    attention: str
    warnings: tuple[str, ...] = ()
    tower: SharedTower | None = None
    ranks: Ranks | None = None


def load_pair_folders(folders: PairFolders, settings: ModelSettings) -> LoadedPair:
    """Load the pair, once everything but the weights is known to match.

    Raises:
        ModelError: unknown family, broken checkpoint, no such device or no room on it, a pair that
            does not match, an attention kernel that does not run.
        UsageError: a device name torch does not know, or settings that contradict each other.
    """
    threads = available_threads(settings.threads)
    torch.set_num_threads(threads)
    placement = target_placement(folders, settings)
    device = torch.device(placement.first)
    draft_device = torch_device(settings.draft_device) if settings.draft_device else device
    dtype = torch_dtype(settings.dtype, device)
    check_quantize(settings.quantize, device)
    check_quantize(settings.draft_quantize, draft_device)
    with ExitStack() as undo:
        ranks = None
        if placement.ranks:
            ranks = start_ranks(placement, folders.target, dtype, settings.attention, threads)
            undo.callback(ranks.close)
        checkpoint, draft_checkpoint = _read_pair(folders, settings)
        check_attention(settings.attention, checkpoint, device, dtype)
        if draft_checkpoint is not None:
            check_attention(settings.attention, draft_checkpoint, draft_device, dtype)
        target = _load_target(checkpoint, placement, dtype, settings, ranks)
        draft = None
        if draft_checkpoint is not None:
            draft = load_weights(
                draft_checkpoint,
                Placement(str(draft_device)),
                dtype,
                settings.draft_quantize,
                settings.attention,
            )
        undo.pop_all()
    return LoadedPair(
        target,
        draft,
        device=",".join(placement.devices),
        dtype=_dtype_name(dtype, words_of(checkpoint.quantization) or settings.quantize),
        attention=attention_words(settings.attention, checkpoint, device, dtype),
        warnings=placement.warnings,
        tower=None if draft is None else share_tower(target, draft),
        ranks=ranks,
    )


def _read_pair(
    folders: PairFolders, settings: ModelSettings
) -> tuple[Checkpoint, Checkpoint | None]:
    """Both models without their weights, found to match each other and the settings."""
    target = read_checkpoint(folders.target)
    draft = read_checkpoint(folders.draft) if folders.draft else None
    if draft is not None:
        check_match(target, draft)
        check_unpacked(settings.draft_quantize, draft)
    check_unpacked(settings.quantize, target)
    return target, draft


def _load_target(
    checkpoint: Checkpoint,
    placement: Placement,
    dtype: torch.dtype,
    settings: ModelSettings,
    ranks: Ranks | None,
) -> ReleasedVideoModel:
    quantize, attention = settings.quantize, settings.attention
    if ranks is None:
        return load_weights(checkpoint, placement, dtype, quantize, attention)
    with ranks.loading():
        target = load_weights(checkpoint, placement, dtype, quantize, attention, ranks)
    target.language = ShardedLanguageModel(target.language, ranks)
    return target


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
    shards: Shards | None = None,
) -> ReleasedVideoModel:
    """Load the weights of a checkpoint and put its family's adapter around them.

    Args:
        checkpoint: everything but the weights.
        placement, dtype: where to and as what.
        quantize: whether to pack the weights once they are there.
        attention: see :class:`vidcap.settings.ModelSettings`.
        shards: the ranks that share its layers, None where it is whole.

    Raises:
        ModelError: the weights are broken, do not belong to the configuration, or are too large.
    """
    model = load_released(checkpoint, placement, dtype, attention, shards)
    check_packed_widths(model, checkpoint)
    quantize_layers(model, quantize)
    return _adapter(checkpoint)(checkpoint, model, attention, shards)


def load_released(
    checkpoint: Checkpoint,
    placement: Placement,
    dtype: torch.dtype,
    attention: AttentionName = "auto",
    shards: Shards | None = None,
) -> Any:
    """The released model of a checkpoint; arguments and errors are those of :func:`load_weights`.

    With `shards`, its layers are this rank's parts.
    """
    from transformers.utils import logging

    register()
    logging.disable_progress_bar()
    folder, device = checkpoint.folder, torch.device(placement.first)
    skeleton = _check_size(checkpoint)
    try:
        with _silent_dispatch():
            loaded: Any = type(skeleton).from_pretrained(
                **_source(checkpoint, dtype),
                dtype=dtype,
                attn_implementation={
                    "text_config": ATTENTION_NAME,
                    "vision_config": vision_kernel(attention, device, dtype),
                },
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
                **_places(skeleton, placement, shards),
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
    if shards is not None:
        unwrap_parts(model)
    return model.eval()


def _source(checkpoint: Checkpoint, dtype: torch.dtype) -> dict[str, Any]:
    """What ``from_pretrained`` is to load, as its arguments."""
    if checkpoint.quantization not in INTEGERS:
        return {"pretrained_model_name_or_path": checkpoint.folder, "config": checkpoint.config}
    config = copy.deepcopy(checkpoint.config)
    del config.quantization_config
    state = unpacked_state(checkpoint, dtype)
    return {"pretrained_model_name_or_path": None, "config": config, "state_dict": state}


def _places(skeleton: Any, placement: Placement, shards: Shards | None) -> dict[str, Any]:
    """Where ``from_pretrained`` is to put the weights, as its arguments."""
    if shards is not None:
        return cutting_arguments(shards.count)
    whole = not placement.layers
    return {
        "device_map": torch.device(placement.first) if whole else device_map(skeleton, placement)
    }


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
    if checkpoint.quantization is not None and not unpacks(checkpoint.quantization):
        return model
    described = sum(weight.numel() for weight in model.parameters())
    held = count_parameters(config.to_dict(), stored)
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
