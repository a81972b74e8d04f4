"""In bfloat16 speculation gives the one-token path's tokens, up to near ties."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.engine.runs import PLAIN, Run
from tests.tiny import random_frames
from vidcap.engine.logits import LogitsSettings
from vidcap.engine.margins import choice_margins
from vidcap.models.loading import load_model
from vidcap.settings import method_settings


@pytest.mark.parametrize("name", ["sd", "sd-tree", "self"])
def test_a_first_difference_is_a_near_tie(
    tiny_target: Path, tiny_perturbed: Path, name: str
) -> None:
    cpu = torch.device("cpu")
    target, draft = (
        load_model(path, cpu, torch.bfloat16) for path in (tiny_target, tiny_perturbed)
    )
    same = 0
    for seed in range(6):
        run = Run(target, draft, target.prepare(random_frames(6, seed=seed), 2.0))
        plain, _ = run.ask("What moves?", PLAIN)
        tokens, _ = run.ask("What moves?", method_settings(name))
        if tokens == plain:
            same += 1
            continue
        first = next(i for i, (a, b) in enumerate(zip(tokens, plain, strict=False)) if a != b)
        rules = target.rules
        margins = choice_margins(
            run.prefill().target,
            target.suffix_ids("What moves?"),
            LogitsSettings(rules.vocab_size, rules.placeholder_ids),
            plain,
        )
        assert margins[first] <= 0.05 * max(margins)
    assert same >= 2
