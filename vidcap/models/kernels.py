"""Which attention kernels run a pair: the choice, whether it can be had, and its name."""

from __future__ import annotations

import torch

from vidcap.engine.kernels import flash_works
from vidcap.errors import ModelError
from vidcap.models.checkpoint import Checkpoint
from vidcap.settings import AttentionName

_HALF = (torch.float16, torch.bfloat16)


def check_attention(
    choice: AttentionName, checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype
) -> None:
    """Make sure that a model can have the kernel that was asked for.

    Raises:
        ModelError: the flash kernel was demanded and does not run.
    """
    size = head_size(checkpoint)
    if choice == "flash" and not flash_works(device, dtype, size):
        name = str(dtype).removeprefix("torch.")
        raise ModelError(
            f"--attn flash: torch's flash kernel does not run on {device} in {name} with heads of "
            f"{size} numbers",
            hint="--attn auto takes it only where it runs",
        )


def vision_kernel(choice: AttentionName, device: torch.device, dtype: torch.dtype) -> str:
    """Name of the vision tower's attention, as transformers calls it.

    torch's SDPA everywhere but where the flash kernel is demanded and flash-attn is installed.
    """
    from transformers.utils.import_utils import is_flash_attn_2_available

    demanded = choice == "flash" and device.type == "cuda" and dtype in _HALF
    return "flash_attention_2" if demanded and is_flash_attn_2_available() else "sdpa"


def attention_words(
    choice: AttentionName, checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype
) -> str:
    """What computes the attention of prefix, tail, prefill and vision, for people."""
    flash = choice != "sdpa" and flash_works(device, dtype, head_size(checkpoint))
    if not flash:
        rows = "matmul (prefix + tail)"
    elif device.type == "cpu":
        rows = "flash (prefix + tail)"
    else:
        rows = "flash (prefix), matmul (tail)"
    vision = vision_kernel(choice, device, dtype)
    if vision == "sdpa":
        return f"{rows}, sdpa (prefill, vision)"
    return f"{rows}, sdpa (prefill), {vision} (vision)"


def head_size(checkpoint: Checkpoint) -> int:
    """Numbers of an attention head of the text model."""
    text = checkpoint.config.get_text_config()
    size: int | None = getattr(text, "head_dim", None)
    return size or text.hidden_size // text.num_attention_heads
