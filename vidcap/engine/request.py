"""One question behind a prefilled video: joins target, drafter, verifier and limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vidcap.engine.decoder import Decoder, TargetDecoder
from vidcap.engine.draft import (
    AutoDrafter,
    Chooser,
    Drafter,
    DynamicDrafter,
    DynamicSettings,
    EntropyShape,
    Lookup,
    LookupDrafter,
    NoDraft,
    PairDrafter,
    ViSkip,
    WithLookup,
)
from vidcap.engine.draft.entropy import ENTROPY_TREES
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.loop import Generation, Limits
from vidcap.engine.policy import LARGEST_AUTO_TREE, Policy
from vidcap.engine.probe import Probe
from vidcap.engine.prune.score import PrefillProbes
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.schedule import PrefilledPrompt
from vidcap.engine.stats import Stats
from vidcap.engine.tree import STATIC_TREE, TreeShape
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
    build = _Builder(prompt, request, stats)
    return Generation(
        build.target(),
        build.drafter,
        build.verifier(),
        build.stack,
        request.limits,
        stats,
        should_stop,
    )


def largest_tree(settings: SpeculationSettings) -> int:
    """Most rows that a round of this method needs in either model, the root included."""
    rows = {
        "chain": settings.draft_tokens,
        "static": STATIC_TREE.size,
        "entropy": max(shape.size for shape in ENTROPY_TREES),
        "auto": LARGEST_AUTO_TREE,
        # The draft runs a whole frontier per level, the target the best nodes of all of them.
        "dynamic": max(settings.tree_nodes, settings.tree_depth * settings.tree_width),
    }[settings.tree]
    return 1 + max(rows, settings.draft_tokens) + settings.lookup_branch


class _Builder:
    """Makes the parts of one generation from the method's settings."""

    def __init__(self, prompt: PrefilledPrompt, request: Request, stats: Stats):
        self._prompt = prompt
        self._request = request
        self._stats = stats
        self._settings = prompt.speculation
        ids = torch.cat([prompt.target.prefix.ids, request.suffix_ids], dim=1)
        self._prompt_ids = ids
        self.stack = LogitsStack(request.logits, ids)
        sampling = request.sampling
        self._generator = sampling.generator() if sampling else None
        text = request.suffix_ids.shape[1] + request.limits.max_tokens
        # The last round may accept a whole path beyond the limit before it is cut.
        self._rows = text + 2 * largest_tree(self._settings)
        self._target = prompt.target.fork(self._rows)
        self._suffix_probe = Probe(prompt.pruner.suffix_needs, prompt.target.prefix.visual_index)

    def target(self) -> TargetDecoder:
        """The target behind the question."""
        with self._stats.timer("target_prefill"):
            return TargetDecoder(
                self._target,
                self._request.suffix_ids,
                self._suffix_probe,
                visual_mass=self._settings.viskip is not None,
            )

    def verifier(self) -> Verifier:
        """Who judges."""
        sampling, rule = self._request.sampling, self._loose_rule()
        if sampling is not None and self._generator is not None:
            return LosslessSampling(sampling, self._generator, rule)
        return StrictGreedy() if rule is None else LooseGreedy(rule)

    def _loose_rule(self) -> LooseRule | None:
        settings, visual = self._settings, self._prompt.probe.visual_output
        if settings.verify == "strict":
            return None
        if settings.loose_rule == "fly":
            return FLyRule(
                mode=settings.fly_mode, theta=settings.fly_theta, window=settings.fly_window
            )
        strict_ids = self._request.strict_ids | self._request.limits.stop_ids
        guards = Guards(strict_ids, settings.loose_delta)
        if settings.loose_rule == "random":
            return RandomRule(fraction=settings.loose_fraction, guards=guards)
        if visual is None:
            raise ValueError("LVSpec needs the target's states of the visual tokens")
        return LVSpecRule(
            visual[0],
            fraction=settings.loose_fraction,
            top_n=settings.lvspec_top_n,
            shift=settings.lvspec_shift == "on",
            guards=guards if settings.lvspec_mode == "guarded" else None,
        )

    def drafter(self) -> Drafter:
        """Who proposes; the target must have seen the question."""
        drafter, threshold = self._drafter(), self._settings.viskip
        return drafter if threshold is None else ViSkip(drafter, self._stats, threshold)

    def _drafter(self) -> Drafter:
        settings = self._settings
        if settings.draft == "none":
            return NoDraft()
        if settings.draft == "lookup":
            return LookupDrafter(self._lookup(), settings.draft_tokens)
        with self._stats.timer("draft_prefill"):
            drafter = self._model_drafter(self._draft_decoder())
        if settings.lookup_branch:
            return WithLookup(drafter, self._lookup(), settings.lookup_branch)
        return drafter

    def _lookup(self) -> Lookup:
        suppressed = self._request.logits.suppress
        return Lookup(self._prompt_ids[0].tolist(), suppressed, self._settings.lookup_ngram)

    def _draft_decoder(self) -> Decoder:
        prompt, settings = self._prompt, self._settings
        if prompt.source is None:
            raise ValueError(f"method '{settings.method}' needs a draft model")
        prefix = prompt.target.prefix
        kept = prompt.pruner.keep(prefix, PrefillProbes(prompt.probe, self._suffix_probe))
        self._stats.draft_visual = len(prefix.visual_index) if kept is None else len(kept)
        return prompt.source.decoder(
            self._target,
            self._request.suffix_ids,
            kept,
            compact=settings.kept_positions == "compact",
            rows=self._rows,
        )

    def _repeatable(self) -> bool:
        """Whether the same text must come again: trees chosen by the clock would change samples."""
        sampling = self._request.sampling
        return sampling is not None and sampling.seed is not None

    def _model_drafter(self, decoder: Decoder) -> Drafter:
        settings, stack = self._settings, self.stack
        if settings.tree == "dynamic":
            form = DynamicSettings(settings.tree_nodes, settings.tree_depth, settings.tree_width)
            return DynamicDrafter(decoder, form, stack)
        chooser = Chooser(self._request.sampling, self._generator)
        if settings.tree == "auto" and not self._repeatable():
            policy = self._request.policy or Policy()
            return AutoDrafter(decoder, policy, stack, self._stats, chooser)
        if settings.tree == "entropy":
            choice = EntropyShape(settings.entropy_sure, settings.entropy_unsure)
            return PairDrafter(decoder, choice, stack, chooser)
        chain = settings.tree == "chain"
        shape = TreeShape.chain(settings.draft_tokens) if chain else STATIC_TREE
        return PairDrafter(decoder, shape, stack, chooser)
