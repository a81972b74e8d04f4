"""Checkpoints in the hub's layout: they load with the Auto classes alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2Tokenizer,
)

from vidcap.demo.checkpoint import (
    DRAFT_SHAPE,
    MAX_PIXELS,
    MIN_PIXELS,
    TARGET_SHAPE,
    ModelShape,
    build_model,
    build_processor,
    save_checkpoint,
)
from vidcap.demo.tokenizer import SPECIAL_TOKENS, train_tokenizer

TINY = ModelShape(layers=1, hidden=128, intermediate=64, heads=1, vision_layers=1)
CONVERSATION = [
    {
        "role": "user",
        "content": [{"type": "video"}, {"type": "text", "text": "What moves?"}],
    }
]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    texts = ["A red circle moves to the left.", "What moves to the left?"]
    return train_tokenizer(texts, 1100)


@pytest.fixture(scope="module")
def saved(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("checkpoint")
    model = build_model(TINY, tokenizer, seed=1)
    save_checkpoint(model, tokenizer, folder)
    return model, folder


def test_the_auto_classes_give_the_released_ones(saved: tuple[Any, Path]) -> None:
    _, folder = saved
    model = AutoModelForImageTextToText.from_pretrained(folder)
    processor = AutoProcessor.from_pretrained(folder)
    assert type(model) is Qwen2_5_VLForConditionalGeneration
    assert type(processor) is Qwen2_5_VLProcessor
    assert type(AutoTokenizer.from_pretrained(folder)) is Qwen2Tokenizer
    assert model.dtype == torch.bfloat16
    assert model.model.language_model.rotary_emb.inv_freq.dtype == torch.float32
    assert "custom_code" not in (folder / "config.json").read_text()


def test_weights_come_back_rounded_to_bfloat16(saved: tuple[Any, Path]) -> None:
    model, folder = saved
    loaded = AutoModelForImageTextToText.from_pretrained(folder).state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded[name], tensor.to(torch.bfloat16)), name
    assert loaded["lm_head.weight"].data_ptr() == (
        loaded["model.language_model.embed_tokens.weight"].data_ptr()
    )


def test_saving_leaves_the_model_in_float32(saved: tuple[Any, Path]) -> None:
    model, _ = saved
    assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.float32}


def test_files_of_the_hub_layout(saved: tuple[Any, Path]) -> None:
    _, folder = saved
    for name in (
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "preprocessor_config.json",
        "video_preprocessor_config.json",
    ):
        assert (folder / name).stat().st_size > 0
    config = json.loads((folder / "config.json").read_text())
    assert config["text_config"]["vocab_size"] % 64 == 0
    assert config["text_config"]["rope_parameters"]["mrope_section"] == [16, 24, 24]
    assert config["vision_config"]["tokens_per_second"] == 2


def test_generation_stops_at_the_end_of_a_turn(saved: tuple[Any, Path], tokenizer: Any) -> None:
    settings = json.loads((saved[1] / "generation_config.json").read_text())
    names = [tokenizer.convert_ids_to_tokens(token) for token in settings["eos_token_id"]]
    assert names == ["<|im_end|>", "<|endoftext|>"]
    assert settings["do_sample"] is False
    assert settings["repetition_penalty"] == 1.0
    assert settings["pad_token_id"] == tokenizer.convert_tokens_to_ids("<|endoftext|>")


@pytest.mark.parametrize(
    ("frames", "height", "width", "tokens"),
    [(8, 112, 112, 64), (20, 360, 640, 2520), (7, 64, 64, 64)],
)
def test_clips_become_a_moderate_number_of_tokens(
    tokenizer: Any, frames: int, height: int, width: int, tokens: int
) -> None:
    processor: Any = build_processor(tokenizer)
    video = torch.zeros(frames, 3, height, width, dtype=torch.uint8)
    text = processor.apply_chat_template(CONVERSATION, tokenize=False, add_generation_prompt=True)
    inputs = processor(text=[text], videos=[video], do_sample_frames=False, return_tensors="pt")
    pad = tokenizer.convert_tokens_to_ids("<|video_pad|>")
    assert int((inputs["input_ids"] == pad).sum()) == tokens
    t, h, w = inputs["video_grid_thw"][0].tolist()
    assert t * h * w == 4 * tokens
    assert MIN_PIXELS <= h * w * 14 * 14 <= MAX_PIXELS


def test_the_template_lays_turns_out_as_qwen_does(tokenizer: Any) -> None:
    text = tokenizer.apply_chat_template(CONVERSATION, tokenize=False, add_generation_prompt=True)
    assert text == (
        "<|im_start|>system\nYou describe videos.<|im_end|>\n"
        "<|im_start|>user\n<|vision_start|><|video_pad|><|vision_end|>What moves?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    own = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert tokenizer.apply_chat_template(own, tokenize=False) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    )


@pytest.mark.parametrize("text", ["Zoë's 日本 dog\n\n🙂 walks  away\t", "<tag> 100 %", ""])
def test_any_text_survives_the_tokenizer(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_special_tokens_are_single_ids(tokenizer: Any) -> None:
    for number, token in enumerate(SPECIAL_TOKENS):
        assert tokenizer(f"a{token}b").input_ids[1] == number
    assert tokenizer.decode([2, 0], skip_special_tokens=True) == ""


def test_words_of_captions_are_single_tokens(tokenizer: Any) -> None:
    assert len(tokenizer(" circle moves left").input_ids) == 3


def test_the_pair_keeps_its_budget(tokenizer: Any) -> None:
    """Bytes of the weights in bfloat16, each parameter once."""
    target, draft = (
        2 * sum(p.numel() for p in build_model(shape, tokenizer, 0).parameters())
        for shape in (TARGET_SHAPE, DRAFT_SHAPE)
    )
    assert target <= 29e6
    assert target + draft <= 36e6


def test_weights_depend_on_the_seed_alone(tokenizer: Any) -> None:
    one, same, other = (build_model(TINY, tokenizer, seed).state_dict() for seed in (5, 5, 6))
    name = "model.visual.merger.mlp.0.weight"
    assert torch.equal(one[name], same[name])
    assert not torch.equal(one[name], other[name])
