"""Makes the drafter of one generation from the method's settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft import (
    Arm,
    ArmsDrafter,
    AutoDrafter,
    Chooser,
    Drafter,
    DraftViews,
    DynamicDrafter,
    DynamicSettings,
    EntropyShape,
    Lookup,
    LookupDrafter,
    NoDraft,
    PairDrafter,
    StartupDrafter,
    View,
    ViSkip,
    WithLookup,
)
from vidcap.engine.draft.entropy import ENTROPY_TREES
from vidcap.engine.logits import LogitsStack
from vidcap.engine.policy import AUTO_WIDTH, DEEPEST_AUTO_TREE, LARGEST_AUTO_TREE, Policy
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.stats import Stats
from vidcap.engine.tree import STATIC_TREE, TreeShape
from vidcap.settings import ArmName, SpeculationSettings


def largest_tree(settings: SpeculationSettings) -> int:
    """Most rows that a round of this method needs in either model, the root included."""
    rows = {
        "chain": settings.draft_tokens,
        "static": STATIC_TREE.size,
        "entropy": max(shape.size for shape in ENTROPY_TREES),
        "auto": max(LARGEST_AUTO_TREE, DEEPEST_AUTO_TREE * AUTO_WIDTH),
        # The draft runs a whole frontier per level, the target the best nodes of all of them.
        "dynamic": max(settings.tree_nodes, settings.tree_depth * settings.tree_width),
    }[settings.tree]
    return 1 + max(rows, settings.draft_tokens) + settings.lookup_branch


def deepest_path(settings: SpeculationSettings) -> int:
    """Most tokens that a round of this method may accept, a lookup branch left out.

    Of ``auto`` trees, which follow what pays, none is known beforehand: arms do not draft them.
    """
    depths = {
        "chain": settings.draft_tokens,
        "static": max(STATIC_TREE.depths()),
        "entropy": max(max(shape.depths()) for shape in ENTROPY_TREES),
        "dynamic": settings.tree_depth,
    }
    return depths[settings.tree]


#: Stages around a prefill inside a round; their time leaves it out.
_ROUND = ("draft", "decode")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A draft that has seen the question.

    Attributes:
        decoder: the draft model behind it.
        startup: a drafter with its first proposal ready, None where nothing was drafted early.
    """

    decoder: Decoder
    startup: StartupDrafter | None = None


@dataclass(frozen=True, slots=True)
class Drafting:
    """What drafting shares with the rest of a generation.

    Attributes:
        settings: the method.
        stack: the request's logits stack.
        sampling, generator: None for greedy decoding.
        policy: what ``auto`` has learnt so far.
        stats: of the request.
    """

    settings: SpeculationSettings
    stack: LogitsStack
    sampling: SamplingSettings | None
    generator: torch.Generator | None
    policy: Policy | None
    stats: Stats

    def drafter(
        self, prompt_ids: Tensor, views: DraftViews | None, prepared: Prepared | None = None
    ) -> Drafter:
        """Who proposes.

        Args:
            prompt_ids: Long[b, n] the whole prompt.
            views: makes decoders of the draft model.
            prepared: the first of them, where it is there already.

        Raises:
            ValueError: the method needs a draft model and there is none.
        """
        drafter = self._drafter(prompt_ids, views, prepared)
        threshold = self.settings.viskip
        return drafter if threshold is None else ViSkip(drafter, self.stats, threshold)

    @property
    def first_view(self) -> View | None:
        """How much of the video the draft sees in its first round, None for no draft model."""
        arms = self.settings.arms
        if arms is not None:
            return _view(arms[0])
        return "pruned" if self.settings.draft in ("pair", "self") else None

    def prepare(
        self, views: DraftViews, is_early: Callable[[], bool] = lambda: False
    ) -> Prepared | None:
        """Run the draft over prompt and question, unless the answer starts without it.

        Args:
            views: makes its decoder.
            is_early: asked at the end, whether to draft a window behind the draft's own guess of
                the first token. Left out for samples, whose order of random numbers must not depend
                on threads, and for drafters that learn from every proposal; or by ``startup``.
        """
        view = self.first_view
        if view is None or self._starts_plain:
            return None
        decoder, settings = views.decoder(view), self.settings
        learns = settings.tree == "auto" or settings.arms is not None
        off = settings.startup == "off" or self.sampling is not None or learns
        if off or not is_early():
            return Prepared(decoder)
        with self.stats.timer("draft_prefill", "startup window"):
            make = partial(self._model_drafter, decoder)
            return Prepared(decoder, StartupDrafter(decoder, make, self.stack))

    def _drafter(
        self, prompt_ids: Tensor, views: DraftViews | None, prepared: Prepared | None
    ) -> Drafter:
        settings = self.settings
        if settings.draft == "none":
            return NoDraft()
        if settings.draft == "lookup":
            return LookupDrafter(self._lookup(prompt_ids), settings.draft_tokens)
        if views is None:
            raise ValueError(f"method '{settings.method}' needs a draft model")
        prepared = prepared or self.prepare(views)
        if settings.arms is not None:
            drafter: Drafter = self._arms(settings.arms, prompt_ids, views, prepared)
        elif self._adapts:
            drafter = self._auto(prompt_ids.shape[1], views, prepared)
        elif prepared is None:
            raise ValueError(f"method '{settings.method}' drafts with no model")
        else:
            drafter = prepared.startup or self._model_drafter(prepared.decoder)
        if settings.lookup_branch:
            return WithLookup(drafter, self._lookup(prompt_ids), settings.lookup_branch)
        return drafter

    def _arms(
        self,
        names: tuple[ArmName, ...],
        prompt_ids: Tensor,
        views: DraftViews,
        prepared: Prepared | None,
    ) -> ArmsDrafter:
        settings = self.settings

        def make(name: ArmName) -> Drafter:
            view = _view(name)
            if view is None:
                return LookupDrafter(self._lookup(prompt_ids), settings.draft_tokens)
            if prepared is not None and name == names[0]:
                return self._model_drafter(prepared.decoder)
            return self._model_drafter(views.decoder(view, apart_from=_ROUND))

        depth = deepest_path(settings)
        arms = [Arm(name, partial(make, name), depth, free=name == "lookup") for name in names]
        return ArmsDrafter(arms, self.stats)

    def _auto(self, context: int, views: DraftViews, prepared: Prepared | None) -> AutoDrafter:
        decoder = None if prepared is None else prepared.decoder
        late = partial(views.decoder, self.first_view or "pruned", apart_from=_ROUND)
        policy = self.policy or Policy()
        # Where a first choice may stand although the target has another one, siblings bring little:
        # they are taken where they are that choice, and end what the first one had begun.
        width = 1 if self.settings.verify == "loose" else AUTO_WIDTH
        return AutoDrafter(context, decoder, late, policy, self.stack, self.stats, width)

    def _lookup(self, prompt_ids: Tensor) -> Lookup:
        suppressed = self.stack.settings.suppress
        return Lookup(prompt_ids[0].tolist(), suppressed, self.settings.lookup_ngram)

    @property
    def _adapts(self) -> bool:
        """Whether costs decide; not where a seed repeats a text: the clock would change samples."""
        repeatable = self.sampling is not None and self.sampling.seed is not None
        return self.settings.tree == "auto" and not repeatable

    @property
    def _starts_plain(self) -> bool:
        return self._adapts and starts_plain(self.settings, self.policy)

    def _model_drafter(self, decoder: Decoder) -> Drafter:
        settings, stack = self.settings, self.stack
        if settings.tree == "dynamic":
            form = DynamicSettings(settings.tree_nodes, settings.tree_depth, settings.tree_width)
            return DynamicDrafter(decoder, form, stack)
        chooser = Chooser(self.sampling, self.generator)
        if settings.tree == "entropy":
            choice = EntropyShape(settings.entropy_sure, settings.entropy_unsure)
            return PairDrafter(decoder, choice, stack, chooser)
        chain = settings.tree == "chain"
        shape = TreeShape.chain(settings.draft_tokens) if chain else STATIC_TREE
        return PairDrafter(decoder, shape, stack, chooser)


def starts_plain(settings: SpeculationSettings, policy: Policy | None) -> bool:
    """Whether an answer begins without its draft model, which then reads the prompt if need be."""
    late = settings.draft == "pair" and settings.tree == "auto"
    return late and policy is not None and policy.losing


def _view(arm: ArmName) -> View | None:
    return None if arm == "lookup" else arm
