"""Settings and a checkpoint's rules as the engine takes them."""

from __future__ import annotations

import pytest

from vidcap.decoding import answer_limits, logits_settings, sampling_settings
from vidcap.engine.sampling import SamplingSettings
from vidcap.models.protocol import TokenRules
from vidcap.settings import GenerationSettings

RULES = TokenRules(100, frozenset({2, 3}), (7, 8), 1.05, 4096)


def test_an_answer_ends_at_a_stop_token_or_at_its_length() -> None:
    limits = answer_limits(GenerationSettings(max_tokens=9), RULES)
    assert (limits.max_tokens, limits.stop_ids) == (9, {2, 3})


@pytest.mark.parametrize(("asked", "penalty"), [(None, 1.05), (1.0, 1.0), (1.3, 1.3)])
def test_the_checkpoints_penalty_holds_unless_another_is_asked_for(
    asked: float | None, penalty: float
) -> None:
    logits = logits_settings(GenerationSettings(repetition_penalty=asked), RULES)
    assert (logits.vocab_size, logits.suppress, logits.repetition_penalty) == (
        100,
        (7, 8),
        penalty,
    )


def test_temperature_0_draws_nothing() -> None:
    assert sampling_settings(GenerationSettings(top_p=0.5, seed=1)) is None
    drawn = sampling_settings(GenerationSettings(temperature=0.7, top_p=0.5, seed=1))
    assert drawn == SamplingSettings(0.7, 0.5, 1)
