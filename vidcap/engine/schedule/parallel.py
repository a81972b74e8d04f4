"""Side by side: the draft's vision tower and prefill run while the target reads its prompt.

ParallelVLM's parallel prefilling (arXiv 2603.19610). The draft's vision tower starts at once, or,
where the two share one, behind the target's with what is left to do. Its prefill starts as soon as
it is known what it may see: scores of UV-Prune when layer L of the target is done (prefix and
question run in one pass for that, unless prefills come in chunks), scores by attention when the
question has been read, everything else without waiting. A window of drafts behind the draft's own
guess of the first token is then ready when the target is.

The order of events is the only difference: the drafts are verified as ever, and later questions
about the same video go the sequential way.

On devices of their own, or on streams of one, the two run at the same time. On the CPU they share
the threads, see :class:`vidcap.engine.schedule.lane.ThreadPace`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

import torch

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft import DraftViews, PairSource
from vidcap.engine.drafting import Prepared
from vidcap.engine.loop import Generation
from vidcap.engine.model import EncodedPrefix
from vidcap.engine.probe import Probe
from vidcap.engine.prompt import PrefilledPrompt, PrefillJob
from vidcap.engine.prune.pruner import Pruner
from vidcap.engine.prune.score import PrefillProbes
from vidcap.engine.request import Answer, Request
from vidcap.engine.schedule.lane import Lane, open_lane
from vidcap.engine.schedule.sequential import draft_vision, prefix_needs
from vidcap.engine.stats import Stats
from vidcap.settings import SpeculationSettings


@torch.inference_mode()
def parallel_start(
    target: PrefillJob,
    draft: PrefillJob,
    speculation: SpeculationSettings,
    request: Request,
    stats: Stats,
    should_stop: Callable[[], bool] = lambda: False,
    lane: Lane | None = None,
) -> tuple[PrefilledPrompt, Generation]:
    """Prefill a video together with the first question about it.

    Args:
        target, draft: models and videos.
        speculation: a method that drafts with the pair.
        request: the first question.
        stats: of the request.
        should_stop: asked between rounds.
        lane: where the draft runs, None for what the devices suggest.

    Returns:
        the prompt for further questions, and the generation, ready to iterate over.
    """
    lane = lane or open_lane(target.model.kv_spec.device, draft.model.kv_spec.device)
    try:
        return _Start(target, draft, speculation, request, stats, lane).run(should_stop)
    finally:
        lane.close()


@dataclass(slots=True)
class _Vision:
    """The draft's vision tower: in the lane where that was started, else when it is needed."""

    draft: PrefillJob
    stats: Stats
    prefix: EncodedPrefix | None = None

    def early(self) -> None:
        self.prefix = draft_vision(self.draft, self.stats)

    def __call__(self) -> EncodedPrefix:
        if self.prefix is None:
            # Part of the draft's prefill then, which is timed as a whole.
            self.prefix = self.draft.encode()
        return self.prefix


@dataclass(slots=True)
class _Start:
    """One prefill, side by side."""

    target: PrefillJob
    draft: PrefillJob
    speculation: SpeculationSettings
    request: Request
    stats: Stats
    lane: Lane
    _prepared: Future[Prepared | None] | None = field(default=None, init=False)

    def run(self, should_stop: Callable[[], bool]) -> tuple[PrefilledPrompt, Generation]:
        """Prompt and generation; the lane may still be at work."""
        pruner = Pruner(self.speculation, self.target.model.kv_spec.layers)
        vision = _Vision(self.draft, self.stats)
        starts = self._sees_video_at_once()
        if starts and not self.draft.follows:
            self.lane.submit(vision.early)
        with self.stats.timer("vision", "target vision"):
            prefix = self.target.encode()
        if starts and self.draft.follows:
            self.lane.submit(vision.early)
        source = PairSource(
            self.draft.model,
            prefix.without_inputs(),
            vision,
            max(1, self.speculation.model_arms),
            self.lane.on_layer,
            self.speculation.prefill_chunk,
        )
        answer = Answer(self.speculation, prefix.without_inputs(), self.request, self.stats)
        probes = self._probes(pruner, prefix)
        views = answer.views(source, pruner, probes)
        with self.stats.timer("target_prefill"):
            target = self._prefill(prefix, answer, views)
        self._go(answer, views)
        kept = target.prompt_only()
        prompt = PrefilledPrompt(kept, probes.prefix, source, pruner, self.speculation)
        generation = answer.generation(
            target, probes.prefix, views, self._wait, should_stop=should_stop
        )
        return prompt, generation

    def _sees_video_at_once(self) -> bool:
        arms = self.speculation.arms
        return arms[0] in ("full", "pruned") if arms is not None else self.speculation.prune < 1

    def _probes(self, pruner: Pruner, prefix: EncodedPrefix) -> PrefillProbes:
        question = Probe(pruner.suffix_needs, prefix.visual_index)
        needs = prefix_needs(pruner, self.speculation)
        return PrefillProbes(Probe(needs, prefix.visual_index), question)

    def _prefill(self, prefix: EncodedPrefix, answer: Answer, views: DraftViews) -> Decoder:
        """The target behind prefix and question; starts the draft when its scores are there."""
        model, suffix_ids, probes = self.target.model, self.request.suffix_ids, views.probes
        scored = answer.drafting.first_view == "pruned"
        chunk = self.speculation.prefill_chunk
        if scored and probes.suffix.needs.layer_inputs and not chunk:
            # Scores that compare prefix and question in early layers: both in one pass.
            probe = probes.prefix
            probe.question, probe.prefix_rows = probes.suffix, prefix.length
            on_layer = partial(self._on_layer, probe, answer, views)
            return Decoder.prefill_with_question(
                model, prefix, suffix_ids, answer.rows, probe, on_layer
            )
        needs = probes.suffix.needs
        if not (scored and (needs.visual_attention or needs.layer_inputs)):
            self._go(answer, views)
        base = Decoder.prefill(model, prefix, probes.prefix, self.lane.on_layer, chunk)
        target = base.fork(answer.rows)
        target.append(suffix_ids, probes.suffix)
        return target

    def _on_layer(self, probe: Probe, answer: Answer, views: DraftViews, layer: int) -> None:
        if probe.has_inputs:
            self._go(answer, views)
        self.lane.on_layer(layer)

    def _go(self, answer: Answer, views: DraftViews) -> None:
        """Let the draft read the prompt, unless it does so already."""
        if self._prepared is None:
            work = partial(answer.drafting.prepare, views, self.lane.is_ahead)
            self._prepared = self.lane.submit(work)

    def _wait(self) -> Prepared | None:
        if self._prepared is None:
            return None
        beside = self.lane.is_ahead()
        with self.stats.timer("wait", "wait for the draft") if beside else nullcontext():
            prepared = self.lane.result(self._prepared)
        self.stats.overlap_s = self.lane.overlap_s
        return prepared
