"""Loading a pair: weights into memory, adapters around them, and the check that they match."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from vidcap.engine.attention import ATTENTION_NAME, register
from vidcap.errors import ModelError, UsageError
from vidcap.models.pair import PairFolders
from vidcap.models.protocol import VideoModel
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.models.released import native_bf16
from vidcap.settings import ModelSettings

#: Adapter class per ``model_type`` of config.json.
FAMILIES: dict[str, type[Qwen25VL]] = {"qwen2_5_vl": Qwen25VL}

#: Characters of a chat template that are shown before and after its first difference.
_CONTEXT = 16


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """Both models, ready to run.

    Attributes:
        target, draft: adapters; draft None for plain decoding.
        device, dtype: the target's, as torch names them.
        attention: what computes the attention, for the profile and the record.
    """

    target: VideoModel
    draft: VideoModel | None
    device: str
    dtype: str
    attention: str


def load_pair_folders(folders: PairFolders, settings: ModelSettings) -> LoadedPair:
    """Load the pair.

    Raises:
        ModelError: unknown family, broken checkpoint, no such device, a pair that does not match.
        UsageError: a device name torch does not know.
    """
    torch.set_num_threads(settings.threads or os.cpu_count() or 1)
    device = _device(settings.device)
    draft_device = _device(settings.draft_device) if settings.draft_device else device
    dtype = _dtype(settings.dtype, device)
    target = load_model(folders.target, device, dtype)
    draft = load_model(folders.draft, draft_device, dtype) if folders.draft else None
    if draft is not None:
        check_match(target, draft)
    kernel = "flash" if device.type == "cpu" else "matmul"
    return LoadedPair(
        target,
        draft,
        device=str(device),
        dtype=str(dtype).removeprefix("torch."),
        attention=f"{kernel} (prefix + tail), sdpa (prefill, vision)",
    )


def load_model(folder: Path, device: torch.device, dtype: torch.dtype) -> Qwen25VL:
    """Load one checkpoint in the hub's layout.

    Raises:
        ModelError: unknown family, or transformers cannot load it.
    """
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor
    from transformers.utils import logging

    register()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        adapter = FAMILIES.get(config.model_type)
        if adapter is None:
            raise ModelError(
                f"model type '{config.model_type}' in {folder} is not supported",
                hint="supported: " + ", ".join(FAMILIES),
            )
        model = AutoModelForImageTextToText.from_pretrained(
            folder,
            dtype=dtype,
            device_map=device,
            attn_implementation={"text_config": ATTENTION_NAME, "vision_config": "sdpa"},
            use_safetensors=True,
            trust_remote_code=False,
        )
        processor = AutoProcessor.from_pretrained(folder, trust_remote_code=False)
    except torch.OutOfMemoryError as error:
        raise ModelError(f"not enough memory on {device} for {folder}") from error
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{folder} cannot be loaded: {_first_line(error)}") from error
    return adapter(folder, model.eval(), processor)


def check_match(target: VideoModel, draft: VideoModel) -> None:
    """Make sure that what one model of a pair writes is what the other reads.

    Raises:
        ModelError: tokenizer, chat template, visual placeholders or stop tokens differ; it says
            which, and how.
    """
    for what, difference in (
        ("tokenizers", _tokenizer_difference),
        ("chat templates", _template_difference),
        ("visual placeholders", _placeholder_difference),
        ("stop tokens", _stop_difference),
    ):
        words = difference(target, draft)
        if words:
            raise ModelError(
                f"target and draft do not make a pair: their {what} differ ({words})",
                hint="use two sizes of the same model family and version",
            )


def _tokenizer_difference(target: VideoModel, draft: VideoModel) -> str | None:
    ours, theirs = target.tokenizer.get_vocab(), draft.tokenizer.get_vocab()
    if ours == theirs:
        return None
    other = sorted(token for token in ours if ours[token] != theirs.get(token))
    if not other:
        return f"the draft has {len(theirs) - len(ours)} tokens more"
    return f"{len(other)} of {len(ours)} tokens have other ids, {other[0]!r} for one"


def _template_difference(target: VideoModel, draft: VideoModel) -> str | None:
    ours, theirs = target.template, draft.template
    if ours == theirs:
        return None
    pairs = enumerate(zip(ours, theirs, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(ours), len(theirs)))
    begin = max(0, same - _CONTEXT)
    pieces = [text[begin : same + _CONTEXT] for text in (ours, theirs)]
    return f"{pieces[0]!r} and {pieces[1]!r}"


def _placeholder_difference(target: VideoModel, draft: VideoModel) -> str | None:
    ours, theirs = target.rules.placeholder_ids, draft.rules.placeholder_ids
    return None if ours == theirs else f"ids {list(ours)} and {list(theirs)}"


def _stop_difference(target: VideoModel, draft: VideoModel) -> str | None:
    # The target's tokens end an answer; a draft that knows one of them can propose the end.
    ours, theirs = target.rules.stop_ids, draft.rules.stop_ids
    if ours & theirs:
        return None
    return f"{_written(target, sorted(ours))} and {_written(draft, sorted(theirs))}"


def _written(model: VideoModel, ids: Sequence[int]) -> str:
    return repr("".join(model.tokenizer.convert_ids_to_tokens(list(ids))))


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"no device '{name}'", hint="for example cpu, cuda or cuda:1") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(f"device '{name}' was asked for, but torch sees no CUDA device")
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"device '{name}' is not supported", hint="use cpu or cuda")
    return device


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        return torch.bfloat16 if native_bf16(device) else torch.float32
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
