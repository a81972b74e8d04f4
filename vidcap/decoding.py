"""What the settings of a generation and a checkpoint's rules about tokens mean to the engine."""

from __future__ import annotations

from vidcap.engine.logits import LogitsSettings
from vidcap.engine.loop import Limits
from vidcap.engine.sampling import SamplingSettings
from vidcap.models.protocol import TokenRules
from vidcap.settings import GenerationSettings


def answer_limits(generation: GenerationSettings, rules: TokenRules) -> Limits:
    """Where an answer ends."""
    return Limits(generation.max_tokens, rules.stop_ids)


def logits_settings(generation: GenerationSettings, rules: TokenRules) -> LogitsSettings:
    """What is done to the scores; the checkpoint's repetition penalty where none is asked for."""
    penalty = generation.repetition_penalty
    return LogitsSettings(
        vocab_size=rules.vocab_size,
        suppress=rules.placeholder_ids,
        repetition_penalty=rules.repetition_penalty if penalty is None else penalty,
    )


def sampling_settings(generation: GenerationSettings) -> SamplingSettings | None:
    """How tokens are drawn, None for greedy decoding."""
    if generation.temperature == 0:
        return None
    return SamplingSettings(generation.temperature, generation.top_p, generation.seed)
