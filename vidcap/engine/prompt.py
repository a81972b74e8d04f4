"""A video in front of both models: what it takes to prefill it, and what is left afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.source import DraftSource
from vidcap.engine.model import EncodedPrefix, LanguageModel
from vidcap.engine.probe import Probe
from vidcap.engine.prune.pruner import Pruner
from vidcap.settings import SpeculationSettings


@dataclass(frozen=True, slots=True)
class PrefillJob:
    """A model and the work that turns the video into its prompt prefix (the vision tower).

    Attributes:
        model: what reads the prompt.
        encode: runs once.
        follows: whether the draft's work needs what the target's has computed.
    """

    model: LanguageModel
    encode: Callable[[], EncodedPrefix]
    follows: bool = False


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
