"""One after the other: the target's vision tower and prefill, then the draft's."""

from __future__ import annotations

from dataclasses import replace

import torch

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.source import DraftSource, PairSource, SelfSource
from vidcap.engine.model import EncodedPrefix
from vidcap.engine.probe import Needs, Probe
from vidcap.engine.prompt import PrefilledPrompt, PrefillJob
from vidcap.engine.prune.pruner import Pruner
from vidcap.engine.stats import Stats
from vidcap.settings import SpeculationSettings


@torch.inference_mode()
def sequential_prefill(
    target: PrefillJob,
    draft: PrefillJob | None,
    speculation: SpeculationSettings,
    stats: Stats,
    *,
    late_draft: bool = False,
) -> PrefilledPrompt:
    """Encode the video for both models and prefill the target.

    The draft's own prefill waits for the question, which may decide what it sees.

    Args:
        target, draft: models and videos; draft None where no model drafts.
        speculation: the method.
        stats: of the first request.
        late_draft: whether the draft's vision tower waits as well, for a round that drafts.
    """
    pruner = Pruner(speculation, target.model.kv_spec.layers)
    with stats.timer("vision", "target vision"):
        prefix = target.encode()
    probe = Probe(prefix_needs(pruner, speculation), prefix.visual_index)
    with stats.timer("target_prefill"):
        decoder = Decoder.prefill(target.model, prefix, probe, chunk=speculation.prefill_chunk)
    source = _source(draft, decoder.prefix, speculation, stats, late=late_draft)
    return PrefilledPrompt(decoder, probe, source, pruner, speculation)


def prefix_needs(pruner: Pruner, speculation: SpeculationSettings) -> Needs:
    """What the target's pass over the prefix has to hand over."""
    return replace(pruner.prefix_needs, visual_output=speculation.ranks_relevance)


def draft_vision(draft: PrefillJob, stats: Stats) -> EncodedPrefix:
    """The video as the draft's own vision tower sees it."""
    with stats.timer("vision", "draft vision"):
        return draft.encode()


def _source(
    draft: PrefillJob | None,
    target: EncodedPrefix,
    speculation: SpeculationSettings,
    stats: Stats,
    *,
    late: bool,
) -> DraftSource | None:
    if speculation.draft == "self":
        return SelfSource()
    if speculation.draft != "pair" or draft is None:
        return None
    chunk = speculation.prefill_chunk
    if late or speculation.arms is not None or speculation.prune == 1:
        # An arm may never start, and without visual tokens the vision tower has nothing to do.
        prefills = max(1, speculation.model_arms)
        return PairSource(draft.model, target, draft.encode, prefills, chunk=chunk)
    prefix = draft_vision(draft, stats)
    return PairSource(draft.model, target, lambda: prefix, chunk=chunk)
