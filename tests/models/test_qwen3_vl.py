"""The Qwen3-VL adapter against the released processor and model."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from tests.models.contract import FamilyContract
from tests.models.families import processor_prompt
from tests.models.family_checks import (
    QUESTIONS,
    check_logits,
    frames_for,
    load_family,
)
from vidcap.errors import ModelError
from vidcap.models.qwen3_vl import Qwen3VL


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return load_family(tmp_path_factory.mktemp("qwen3_vl"), "qwen3_vl")


class TestContract(FamilyContract):
    adapter = Qwen3VL


@pytest.mark.parametrize("count", [1, 5])
def test_prompt_is_the_processors_without_the_marks_around_the_video(
    models: dict[str, Any], count: int
) -> None:
    target = models["target"]
    rgb = frames_for(target, count)
    inputs = target.prepare(rgb, fps=2.0)
    expected = processor_prompt(target, rgb, 2.0, QUESTIONS[0])
    ids = torch.cat([inputs.ids, target.suffix_ids(QUESTIONS[0])], dim=1)
    ours, theirs = (target.tokenizer.decode(item[0]) for item in (ids, expected["input_ids"]))
    assert ours.count("<|vision_start|>") == ours.count("<|vision_end|>") == -(-count // 2)
    begin = theirs.index("<|vision_start|><")
    end = theirs.rindex("<|vision_end|><|vision_end|>") + len("<|vision_end|>")
    start_mark, end_mark = len("<|vision_start|>"), len("<|vision_end|>")
    assert ours == theirs[:begin] + theirs[begin + start_mark : end] + theirs[end + end_mark :]
    for name in target.tensor_names:
        torch.testing.assert_close(inputs.tensors[name], torch.as_tensor(expected[name]))


@pytest.mark.parametrize(
    ("fps", "start_s", "stamps"),
    [
        (2.0, 0.0, ["0.2", "1.2", "2.0"]),
        (0.5, 0.0, ["1.0", "5.0", "8.0"]),
        (2.0, 60.02, ["60.3", "61.3", "62.0"]),
    ],
)
def test_time_stamps_are_means_of_two_frames(
    models: dict[str, Any], fps: float, start_s: float, stamps: list[str]
) -> None:
    """Five frames; the last one stands alone. Tenths are rounded half to even."""
    target = models["target"]
    inputs = target.prepare(frames_for(target, 5), fps, start_s)
    text = target.tokenizer.decode(inputs.ids[0])
    assert re.findall(r"<(\d+\.\d) seconds>", text) == stamps


@pytest.mark.parametrize("count", [1, 6])
def test_prefill_equals_the_released_model(models: dict[str, Any], count: int) -> None:
    prefix = check_logits(models, count)
    assert prefix.grid == (-(-count // 2), 3, 4)
    assert len(prefix.deepstack) == 2


def test_features_deepstack_and_positions_are_the_released_ones(models: dict[str, Any]) -> None:
    target = models["target"]
    inputs = target.prepare(frames_for(target, 6), 2.0)
    prefix, model = target.encode(inputs, "reference"), target.model.model
    tensors = inputs.tensors
    with torch.no_grad():
        output = model.get_video_features(tensors["pixel_values_videos"], tensors["video_grid_thw"])
    assert torch.equal(prefix.embeds[0, prefix.visual_index], torch.cat(output.pooler_output))
    for ours, theirs in zip(prefix.deepstack, output.deepstack_features, strict=True):
        assert torch.equal(ours[0], torch.cat(theirs))
        assert ours.abs().max() > 0
    types = (prefix.ids == target.model.config.video_token_id).int() * 2
    positions, _ = model.get_rope_index(
        prefix.ids, types, video_grid_thw=tensors["video_grid_thw"].clone()
    )
    assert torch.equal(prefix.position_ids, positions)
    # Every step is a video of its own behind its time stamp, so both policies agree.
    other = target.encode(inputs, "transformers")
    assert torch.equal(other.position_ids, prefix.position_ids)
    assert other.suffix_start == prefix.suffix_start


def test_pruning_keeps_the_deepstack_features_of_kept_tokens(models: dict[str, Any]) -> None:
    target = models["target"]
    prefix = target.encode(target.prepare(frames_for(target, 6), 2.0), "reference")
    pruned = prefix.keep(torch.tensor([3, 20]), compact=True)
    for ours, whole in zip(pruned.deepstack, prefix.deepstack, strict=True):
        assert torch.equal(ours, whole[:, [3, 20]])
    assert pruned.layer_features.columns.tolist() == pruned.visual_index.tolist()


def test_a_template_without_marks_is_named(models: dict[str, Any]) -> None:
    target, template = models["target"], models["target"].processor.chat_template
    target.processor.chat_template = "<|im_start|><|video_pad|>{{ messages[0].content[1].text }}"
    try:
        with pytest.raises(ModelError, match="no marks around the video"):
            target.suffix_ids("hello")
    finally:
        target.processor.chat_template = template
