"""One after the other: the target's vision tower and prefill, then the draft's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.source import DraftSource, PairSource, SelfSource
from vidcap.engine.model import EncodedPrefix, LanguageModel
from vidcap.engine.probe import Probe
from vidcap.engine.prune.pruner import Pruner
from vidcap.engine.stats import Stats
from vidcap.settings import SpeculationSettings


@dataclass(frozen=True, slots=True)
class PrefillJob:
    """A model and the work that turns the video into its prompt prefix (the vision tower)."""

    model: LanguageModel
    encode: Callable[[], EncodedPrefix]


@dataclass(frozen=True, slots=True)
class PrefilledPrompt:
    """Target and draft behind the same video; every question forks from here.

    Attributes:
        target: the target behind the prefix.
        probe: what the target's prefix pass handed over for pruning and loose verification.
        source: makes the draft's decoder once the question is known; None where no model drafts.
        pruner: chooses the visual tokens that the draft sees.
        speculation: the method that all of this was prepared for.
    """

    target: Decoder
    probe: Probe
    source: DraftSource | None
    pruner: Pruner
    speculation: SpeculationSettings


@torch.inference_mode()
def sequential_prefill(
    target: PrefillJob,
    draft: PrefillJob | None,
    speculation: SpeculationSettings,
    stats: Stats,
) -> PrefilledPrompt:
    """Encode the video for both models and prefill the target.

    The draft's own prefill waits for the question, which may decide what it sees.
    """
    pruner = Pruner(speculation, target.model.kv_spec.layers)
    with stats.timer("vision"):
        prefix = target.encode()
    loosened = speculation.verify == "loose" and speculation.loose_rule == "lvspec"
    needs = replace(pruner.prefix_needs, visual_output=loosened)
    probe = Probe(needs, prefix.visual_index)
    with stats.timer("target_prefill"):
        decoder = Decoder.prefill(target.model, prefix, probe)
    source = _source(draft, speculation, stats)
    return PrefilledPrompt(decoder, probe, source, pruner, speculation)


def _source(
    draft: PrefillJob | None, speculation: SpeculationSettings, stats: Stats
) -> DraftSource | None:
    if speculation.draft == "self":
        return SelfSource()
    if speculation.draft != "pair" or draft is None:
        return None
    if speculation.prune == 1:
        # Without visual tokens the draft's vision tower has nothing to do.
        return PairSource(draft.model, None)
    with stats.timer("vision"):
        return PairSource(draft.model, draft.encode())
