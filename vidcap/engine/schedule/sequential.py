"""One after the other: the target's vision tower and prefill, then the draft's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from vidcap.engine.decoder import Decoder
from vidcap.engine.model import EncodedPrefix, LanguageModel
from vidcap.engine.stats import Stats


@dataclass(frozen=True, slots=True)
class PrefillJob:
    """A model and the work that turns the video into its prompt prefix (the vision tower)."""

    model: LanguageModel
    encode: Callable[[], EncodedPrefix]


@dataclass(frozen=True, slots=True)
class PrefilledPrompt:
    """Both models behind the same video; every question forks from here."""

    target: Decoder
    draft: Decoder | None


@torch.inference_mode()
def sequential_prefill(
    target: PrefillJob, draft: PrefillJob | None, stats: Stats
) -> PrefilledPrompt:
    """Encode and prefill target and draft one after the other."""
    target_decoder = _prefill(target, "target_prefill", stats)
    draft_decoder = _prefill(draft, "draft_prefill", stats) if draft is not None else None
    return PrefilledPrompt(target_decoder, draft_decoder)


def _prefill(job: PrefillJob, stage: str, stats: Stats) -> Decoder:
    with stats.timer("vision"):
        prefix = job.encode()
    with stats.timer(stage):
        return Decoder.prefill(job.model, prefix)
