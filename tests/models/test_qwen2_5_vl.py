"""The Qwen2.5-VL adapter against the released processor and model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.tiny import random_frames
from vidcap.errors import ModelError, UsageError
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL

QUESTION = "What moves to the left?"


@pytest.fixture(scope="module")
def adapter(tiny_target: Path) -> Qwen25VL:
    return load_model(tiny_target, torch.device("cpu"), torch.float32)


def processor_inputs(adapter: Qwen25VL, frames: torch.Tensor, fps: float) -> dict:
    """What the released processor makes of the whole conversation."""
    from transformers.video_utils import VideoMetadata

    messages = [
        {"role": "user", "content": [{"type": "video"}, {"type": "text", "text": QUESTION}]}
    ]
    text = adapter.processor.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )
    count = len(frames)
    return adapter.processor(
        text=[text],
        videos=[frames],
        video_metadata=[
            VideoMetadata(total_num_frames=count, fps=fps, frames_indices=list(range(count)))
        ],
        do_sample_frames=False,
        return_tensors="pt",
    )


@pytest.mark.parametrize("count", [1, 5, 8])
def test_prefix_and_question_are_the_processors_prompt(adapter: Qwen25VL, count: int) -> None:
    rgb = random_frames(count, 112, 140)
    inputs = adapter.prepare(rgb, fps=2.0)
    expected = processor_inputs(adapter, torch.from_numpy(rgb).permute(0, 3, 1, 2), 2.0)
    ids = torch.cat([inputs.ids, adapter.suffix_ids(QUESTION)], dim=1)
    assert ids.tolist() == expected["input_ids"].tolist()
    torch.testing.assert_close(
        inputs.tensors["pixel_values_videos"], expected["pixel_values_videos"]
    )
    assert inputs.visual_tokens == -(-count // 2) * 4 * 5


@pytest.mark.parametrize("fps", [1.0, 2.0, 4.0, 5.0, 8.0])
def test_positions_follow_the_sampled_rate(adapter: Qwen25VL, fps: float) -> None:
    """Temporal ids step by tokens_per_second * temporal_patch_size / fps, cut to whole numbers."""
    prefix = adapter.encode(adapter.prepare(random_frames(16), fps), "reference")
    times = prefix.position_ids[0, 0, prefix.visual_index].view(8, 16)
    first = int(prefix.visual_index[0])
    expected = [first + int(step * 2 * 2 / fps) for step in range(8)]
    assert times.tolist() == [[value] * 16 for value in expected]
    assert prefix.suffix_start == int(prefix.position_ids.max()) + 1


def test_policies_differ_in_the_text_behind_a_long_video(adapter: Qwen25VL) -> None:
    inputs = adapter.prepare(random_frames(24), 2.0)
    reference = adapter.encode(inputs, "reference")
    released = adapter.encode(inputs, "transformers")
    assert torch.equal(reference.position_ids, released.position_ids)
    first = int(reference.visual_index[0])
    assert released.suffix_start == first + 4
    assert reference.suffix_start == first + 11 * 2 + 1


def test_embeddings_and_positions_equal_the_released_glue(adapter: Qwen25VL) -> None:
    """The captured inputs are what the released forward computes step by step."""
    inputs = adapter.prepare(random_frames(6), 2.0)
    prefix = adapter.encode(inputs, "transformers")
    model = adapter.model.model
    with torch.no_grad():
        features = torch.cat(
            model.get_video_features(
                inputs.tensors["pixel_values_videos"], inputs.tensors["video_grid_thw"]
            ).pooler_output
        )
        expected = model.get_input_embeddings()(inputs.ids)
        expected[0, prefix.visual_index] = features
        positions, _ = model.get_rope_index(
            inputs.ids,
            (inputs.ids == adapter.model.config.video_token_id).int() * 2,
            video_grid_thw=inputs.tensors["video_grid_thw"],
            second_per_grid_ts=inputs.tensors["second_per_grid_ts"],
        )
    assert torch.equal(prefix.embeds, expected)
    assert torch.equal(prefix.position_ids, positions)


def test_the_linear_patch_embedding_equals_the_convolution(
    adapter: Qwen25VL, tiny_target: Path
) -> None:
    from transformers import AutoModelForImageTextToText

    released = AutoModelForImageTextToText.from_pretrained(tiny_target, dtype=torch.float32)
    patches = torch.randn(64, 3 * 2 * 14 * 14, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(
            adapter.model.model.visual.patch_embed(patches),
            released.model.visual.patch_embed(patches),
            atol=1e-4,
            rtol=1e-5,
        )


def test_rules_come_from_the_checkpoint(adapter: Qwen25VL) -> None:
    tokenizer, rules = adapter.tokenizer, adapter.rules
    stops = {tokenizer.convert_tokens_to_ids(name) for name in ("<|im_end|>", "<|endoftext|>")}
    assert rules.stop_ids == stops
    placeholders = {
        tokenizer.convert_tokens_to_ids(name) for name in ("<|image_pad|>", "<|video_pad|>")
    }
    assert set(rules.placeholder_ids) == placeholders
    assert rules.vocab_size == len(tokenizer) <= adapter.model.config.text_config.vocab_size
    assert rules.max_positions == 32768


@pytest.mark.parametrize("token", ["<|video_pad|>", "<|im_end|>", "<|im_start|>"])
def test_control_tokens_in_the_prompt_are_refused(adapter: Qwen25VL, token: str) -> None:
    with pytest.raises(UsageError, match="control token"):
        adapter.suffix_ids(f"Say {token} twice")


def test_a_template_without_a_video_is_named(tiny_target: Path) -> None:
    broken = load_model(tiny_target, torch.device("cpu"), torch.float32)
    broken.processor.chat_template = "{{ messages[0].content[1].text }}"
    with pytest.raises(ModelError, match="chat template"):
        broken.suffix_ids("hello")


def test_bfloat16_keeps_rotary_frequencies_exact(tiny_target: Path) -> None:
    model = load_model(tiny_target, torch.device("cpu"), torch.bfloat16).model
    assert model.lm_head.weight.dtype == torch.bfloat16
    assert model.model.language_model.rotary_emb.inv_freq.dtype == torch.float32
