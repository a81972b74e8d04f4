"""The LLaVA-OneVision adapter against the released processor and model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.models.contract import FamilyContract
from tests.models.family_checks import (
    check_logits,
    check_prompt,
    frames_for,
    load_family,
)
from vidcap.models.llava_onevision import LlavaOnevision


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return load_family(tmp_path_factory.mktemp("llava"), "llava_onevision")


class TestContract(FamilyContract):
    adapter = LlavaOnevision


@pytest.mark.parametrize("count", [1, 5])
def test_prompt_and_pixels_are_the_processors(models: dict[str, Any], count: int) -> None:
    check_prompt(models["target"], count)


@pytest.mark.parametrize("count", [1, 6])
def test_prefill_equals_the_released_model(models: dict[str, Any], count: int) -> None:
    prefix = check_logits(models, count)
    assert prefix.grid == (count, 3, 3)
    assert prefix.position_ids.tolist() == [list(range(prefix.length))]
    assert prefix.suffix_start == prefix.length


def test_visual_features_end_with_the_closing_token(models: dict[str, Any]) -> None:
    target = models["target"]
    inputs = target.prepare(frames_for(target, 3), 2.0)
    prefix = target.encode(inputs, "reference")
    with torch.no_grad():
        features = target.model.model.get_video_features(inputs.tensors["pixel_values_videos"])
    pooled = features.pooler_output.reshape(-1, prefix.embeds.shape[-1])
    assert torch.equal(prefix.embeds[0, prefix.visual_index], pooled[:27])
    assert torch.equal(prefix.embeds[0, -1], target.model.model.image_newline)
    assert inputs.visual_tokens == len(prefix.visual_index) == 27
    assert int((prefix.ids == target.model.config.video_token_id).sum()) == 28


def test_no_pruning_takes_the_closing_token_away(models: dict[str, Any]) -> None:
    target = models["target"]
    prefix = target.encode(target.prepare(frames_for(target, 3), 2.0), "reference")
    for kept in ([], [0, 5], [26]):
        pruned = prefix.keep(torch.tensor(kept, dtype=torch.long), compact=False)
        assert pruned.length == prefix.length - 27 + len(kept)
        assert torch.equal(pruned.embeds[0, -1], target.model.model.image_newline)


def test_a_blind_draft_reads_the_closing_token_where_the_video_was(models: dict[str, Any]) -> None:
    draft = models["draft"]
    ids = torch.tensor([[20, draft.model.config.video_token_id, 21]])
    embeds = draft.language.embed(ids)
    assert torch.equal(embeds[0, 1], draft.model.model.image_newline)
    assert torch.equal(embeds[0, 0], draft.model.get_input_embeddings().weight[20])
