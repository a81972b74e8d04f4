"""The Qwen2-VL adapter against the released processor and model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.models.contract import FamilyContract
from tests.models.families import DRAFT, change_json, write_family
from tests.models.family_checks import (
    check_logits,
    check_prompt,
    frames_for,
    load_family,
    make_run,
)
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.models.qwen2_vl import Qwen2VL
from vidcap.settings import method_settings


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return load_family(tmp_path_factory.mktemp("qwen2_vl"), "qwen2_vl")


class TestContract(FamilyContract):
    adapter = Qwen2VL


@pytest.mark.parametrize("count", [1, 5])
def test_prompt_and_pixels_are_the_processors(models: dict[str, Any], count: int) -> None:
    check_prompt(models["target"], count)


@pytest.mark.parametrize("count", [1, 6])
def test_prefill_equals_the_released_model(models: dict[str, Any], count: int) -> None:
    prefix = check_logits(models, count)
    assert prefix.grid == (-(-count // 2), 3, 5)


def test_temporal_positions_count_grids(models: dict[str, Any]) -> None:
    """Unlike in Qwen2.5-VL, seconds do not matter."""
    target = models["target"]
    for fps in (1.0, 8.0):
        prefix = target.encode(target.prepare(frames_for(target, 12), fps), "reference")
        first = int(prefix.visual_index[0])
        times = prefix.position_ids[0, 0, prefix.visual_index].view(6, 15)
        assert times.tolist() == [[first + step] * 15 for step in range(6)]
        assert prefix.suffix_start == first + 6


def test_a_draft_of_another_family_will_do_where_all_tokens_agree(
    models: dict[str, Any], tmp_path: Path
) -> None:
    """Qwen2.5-VL sees the same visual tokens as Qwen2-VL; only its positions differ."""
    write_family(tmp_path, "qwen2_5_vl", DRAFT, seed=3)
    other = load_model(tmp_path, torch.device("cpu"), torch.float32)
    assert isinstance(other, Qwen25VL)
    run = make_run(models, 6)
    run.draft = other
    run.inputs = other.prepare(frames_for(other, 6), 2.0)
    for name in ("sd-tree", "specvlm"):
        assert run.ask("What moves?", method_settings(name))[0] == run.transformers("What moves?")


def test_generation_settings_count_in_every_arm_or_in_none(
    models: dict[str, Any], tmp_path: Path
) -> None:
    """The repetition penalty is honoured, everything else that would change the text is not."""
    folder = tmp_path / "model"
    shutil.copytree(models["folder"] / "target", folder)
    plain = make_run(models, 4)
    change_json(
        folder,
        "generation_config.json",
        repetition_penalty=1.3,
        no_repeat_ngram_size=1,
        suppress_tokens=plain.transformers("What moves?")[:1],
        temperature=5.0,
    )
    model = load_model(folder, torch.device("cpu"), torch.float32)
    assert model.rules.repetition_penalty == 1.3
    run = make_run({"target": model, "near": models["near"]}, 4)
    run.penalty = model.rules.repetition_penalty
    expected = run.transformers("What moves?")
    assert run.ask("What moves?", method_settings("sd-tree"))[0] == expected
    assert expected[0] == plain.transformers("What moves?")[0]
