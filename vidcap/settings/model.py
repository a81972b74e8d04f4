"""Which pair answers, and how it is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PositionPolicy = Literal["reference", "transformers"]
QuantizeName = Literal["none", "int8", "int4"]
AttentionName = Literal["auto", "sdpa", "flash"]


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which pair is loaded, and how.

    Attributes:
        pair: a preset's name, ``TARGET`` or ``TARGET+DRAFT`` (hub ids or local folders).
        target, draft: override one half of the pair.
        use_draft: False loads the target alone.
        device: a torch device's name, several joined by commas for a target that is spread over
            them, or ``auto``; see ``vidcap.models.placement``.
        draft_device: a torch device's name, None for the target's first one.
        dtype: ``auto`` is bfloat16 on CUDA and on CPUs with native bf16, else float32.
        positions: see ``vidcap.engine.positions``.
        quantize, draft_quantize: whether the weights of target and draft are packed, and how.
        attention: ``auto`` takes the flash kernel where it runs, ``sdpa`` does without it,
            ``flash`` refuses to run where it does not.
        tensor_parallel: ranks that share every layer of the target; see
            ``vidcap.models.parallel``.
    """

    pair: str | None = None
    target: str | None = None
    draft: str | None = None
    use_draft: bool = True
    revision: str | None = None
    device: str = "auto"
    draft_device: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    positions: PositionPolicy = "reference"
    offline: bool = False
    threads: int | None = None
    quantize: QuantizeName = "none"
    draft_quantize: QuantizeName = "none"
    attention: AttentionName = "auto"
    tensor_parallel: int = 1
