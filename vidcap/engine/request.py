"""One question behind a prefilled video: joins target, drafter, verifier and limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vidcap.engine.decoder import Decoder, TargetDecoder
from vidcap.engine.draft import DraftSource, DraftViews
from vidcap.engine.drafting import Drafting, Prepared, largest_tree
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.loop import Generation, Limits
from vidcap.engine.model import EncodedPrefix
from vidcap.engine.policy import Policy
from vidcap.engine.probe import Probe
from vidcap.engine.prompt import PrefilledPrompt
from vidcap.engine.prune.pruner import Pruner
from vidcap.engine.prune.score import PrefillProbes
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.stats import Stats
from vidcap.engine.verify import (
    FLyRule,
    Guards,
    LooseGreedy,
    LooseRule,
    LosslessSampling,
    LVSpecRule,
    RandomRule,
    StrictGreedy,
    Verifier,
)
from vidcap.settings import SpeculationSettings


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked behind the video.

    Attributes:
        suffix_ids: Long[b, n] prompt tokens behind the last visual token.
        limits: when to stop.
        logits: what happens to the scores, the same for every method.
        sampling: None for greedy decoding.
        strict_ids: tokens that loose verification never loosens.
        policy: what ``auto`` has learnt about the pair so far; None starts from nothing.
    """

    suffix_ids: Tensor
    limits: Limits
    logits: LogitsSettings
    sampling: SamplingSettings | None = None
    strict_ids: frozenset[int] = frozenset()
    policy: Policy | None = None


@torch.inference_mode()
def start(
    prompt: PrefilledPrompt,
    request: Request,
    stats: Stats,
    should_stop: Callable[[], bool] = lambda: False,
) -> Generation:
    """Run the question through the models and return the generation, ready to iterate over.

    Raises:
        ValueError: when the method drafts with a pair and the prompt has no draft.
    """
    prefix = prompt.target.prefix
    answer = Answer(prompt.speculation, prefix, request, stats)
    target = prompt.target.fork(answer.rows)
    probes = PrefillProbes(prompt.probe, Probe(prompt.pruner.suffix_needs, prefix.visual_index))
    with stats.timer("target_prefill"):
        target.append(request.suffix_ids, probes.suffix)
    views = None
    if prompt.source is not None:
        views = answer.views(prompt.source, prompt.pruner, probes, target)
    return answer.generation(target, prompt.probe, views, should_stop=should_stop)


class Answer:
    """The parts of one generation that do not wait for any prefill.

    Attributes:
        rows: tail rows that each model needs.
        drafting: makes the drafter.
    """

    def __init__(
        self,
        speculation: SpeculationSettings,
        prefix: EncodedPrefix,
        request: Request,
        stats: Stats,
    ):
        """Args:
        speculation: the method.
        prefix: the target's prompt prefix.
        request: what is asked behind it.
        stats: of the request.
        """
        self._settings = speculation
        self._prefix = prefix
        self._request = request
        self._stats = stats
        self._prompt_ids = torch.cat([prefix.ids, request.suffix_ids], dim=1)
        sampling = request.sampling
        self._generator = sampling.generator() if sampling else None
        text = request.suffix_ids.shape[1] + request.limits.max_tokens
        # The last round may accept a whole path beyond the limit before it is cut.
        self.rows = text + 2 * largest_tree(speculation)
        self._stack = LogitsStack(request.logits, self._prompt_ids)
        self.drafting = Drafting(
            speculation, self._stack, sampling, self._generator, request.policy, stats
        )

    def views(
        self,
        source: DraftSource,
        pruner: Pruner,
        probes: PrefillProbes,
        target: Decoder | None = None,
    ) -> DraftViews:
        """What makes decoders of the draft model."""
        return DraftViews(
            source=source,
            pruner=pruner,
            prefix=self._prefix,
            suffix_ids=self._request.suffix_ids,
            rows=self.rows,
            compact=self._settings.kept_positions == "compact",
            stats=self._stats,
            probes=probes,
            target=target,
        )

    def generation(
        self,
        target: Decoder,
        probe: Probe,
        views: DraftViews | None,
        prepared: Callable[[], Prepared | None] = lambda: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Generation:
        """The generation, ready to iterate over.

        Args:
            target: with the question appended.
            probe: of the pass over the prefix.
            views: makes decoders of the draft model, None where none drafts.
            prepared: called after the first token; the draft's first decoder where it is at work.
            should_stop: asked between rounds.
        """
        return Generation(
            TargetDecoder(target, visual_mass=self._settings.viskip is not None),
            lambda: self.drafting.drafter(self._prompt_ids, views, prepared()),
            self._verifier(probe.visual_output),
            self._stack,
            self._request.limits,
            self._stats,
            should_stop,
        )

    def _verifier(self, visual: Tensor | None) -> Verifier:
        """Who judges; `visual` are the target's states of the visual tokens."""
        sampling, rule = self._request.sampling, self._loose_rule(visual)
        if sampling is not None and self._generator is not None:
            return LosslessSampling(sampling, self._generator, rule)
        return StrictGreedy() if rule is None else LooseGreedy(rule)

    def _loose_rule(self, visual: Tensor | None) -> LooseRule | None:
        settings = self._settings
        if settings.verify == "strict":
            return None
        if settings.loose_rule == "fly":
            return FLyRule(
                mode=settings.fly_mode, theta=settings.fly_theta, window=settings.fly_window
            )
        strict_ids = self._request.strict_ids | self._request.limits.stop_ids
        guards = Guards(strict_ids, settings.loose_delta)
        if settings.loose_rule == "random":
            return RandomRule(fraction=settings.loosened_share, guards=guards)
        return LVSpecRule(
            None if visual is None else visual[0],
            fraction=settings.loosened_share,
            top_n=settings.lvspec_top_n,
            shift=settings.lvspec_shift == "on",
            guards=guards if settings.lvspec_mode == "guarded" else None,
        )
