"""Scores, selection and budget joined: which visual tokens of a prompt the draft keeps."""

from __future__ import annotations

import torch
from torch import Tensor

from vidcap.engine.model import EncodedPrefix
from vidcap.engine.probe import Needs
from vidcap.engine.prune.score import PrefillProbes, Scorer, make_scorer
from vidcap.engine.prune.select import (
    budget,
    select_stratified,
    select_top,
    select_two_stage,
    select_uniform,
)
from vidcap.settings import SpeculationSettings


class Pruner:
    """Chooses the draft's visual tokens for one method."""

    def __init__(self, settings: SpeculationSettings, layers: int):
        """Args:
        settings: the method, with its share to drop and how to choose.
        layers: decoder layers of the target.
        """
        self._settings = settings
        scored = 0 < settings.prune < 1 and (settings.arms is None or "pruned" in settings.arms)
        self._scorer: Scorer | None = None
        if scored:
            self._scorer = make_scorer(settings, layers)
        self.prefix_needs = self._scorer.prefix_needs if self._scorer else Needs()
        self.suffix_needs = self._scorer.suffix_needs if self._scorer else Needs()

    def keep(self, prefix: EncodedPrefix, probes: PrefillProbes | None) -> Tensor | None:
        """Kept visual tokens of the target's prompt.

        Args:
            prefix: the target's prompt prefix.
            probes: what the target's prefill handed over; needed where the scorer needs anything.

        Returns:
            Long[k] sorted ranks among the visual tokens, or None for all of them.
        """
        settings, count = self._settings, len(prefix.visual_index)
        if settings.prune == 0:
            return None
        picks = budget(count, settings.prune)
        device = prefix.ids.device
        if settings.prune_by == "random" and self._scorer is None:
            generator = torch.Generator().manual_seed(settings.prune_seed)
            return torch.randperm(count, generator=generator)[:picks].sort().values.to(device)
        if self._scorer is None:
            return select_uniform(count, picks, device)
        if probes is None:
            raise ValueError(f"scores '{settings.prune_by}' need the target's prefill")
        return self._select(self._scorer.score(probes)[0], picks, prefix)

    def _select(self, scores: Tensor, picks: int, prefix: EncodedPrefix) -> Tensor:
        settings, select = self._settings, self._settings.prune_select
        if select == "top" or (select == "auto" and settings.prune_by == "uv"):
            return select_top(scores, picks)
        scores = scores - scores.min().clamp(max=0)
        if select == "stratified" and prefix.grid is not None:
            return select_stratified(scores, picks, prefix.grid, settings.top_p_mass)
        return select_two_stage(scores, picks, settings.top_p_mass)
