"""Sizes of every family on 500 frame sizes, against the released processors and qwen-vl-utils."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qwen_vl_utils import vision_process as utils
from transformers import LlavaOnevisionVideoProcessor, Qwen2VLVideoProcessor, Qwen3VLVideoProcessor

from vidcap.errors import InputError, ModelError
from vidcap.models.geometry import FAMILIES, make_geometry

#: The bounds of the video processors on the hub.
HUB = {
    "qwen2_vl": {"min_pixels": 3136, "max_pixels": 12_845_056},
    "qwen3_vl": {"size": {"shortest_edge": 4096, "longest_edge": 25_165_824}, "patch_size": 16},
}


def sizes(seed: int, least: int = 20, most: int = 4000) -> list[tuple[int, int, int]]:
    """500 videos: frames, height, width; aspect ratios that the processors take."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < 500:
        height, width = (int(item) for item in rng.integers(least, most, 2))
        if max(height, width) <= 20 * min(height, width):
            found.append((int(rng.integers(2, 80)), height, width))
    return found


def geometry_of(family: str, processor: dict[str, Any], **config: Any) -> Any:
    return make_geometry({"model_type": family, **config}, processor, "there")


@pytest.mark.parametrize("capped", [True, False])
@pytest.mark.parametrize(
    "size",
    [
        {"shortest_edge": 128 * 1024, "longest_edge": 768 * 1024},
        {"shortest_edge": 4096, "longest_edge": 25_165_824},
    ],
)
def test_qwen3_equals_its_processor(size: dict[str, int], capped: bool) -> None:
    settings = {"size": size, "cap_pixels_per_frame": capped}
    processor = Qwen3VLVideoProcessor(**settings)
    geometry = geometry_of("qwen3_vl", settings)
    for frames, height, width in sizes(1):
        ours = geometry.grid(frames, *geometry.frame_size(frames, height, width))
        assert np.prod(ours) == processor.get_num_of_video_patches(frames, height, width)


@pytest.mark.parametrize("most", [768 * 784, 12_845_056])
def test_qwen2_equals_its_processor(most: int) -> None:
    settings = {"min_pixels": 16 * 784, "max_pixels": most, "cap_pixels_per_frame": False}
    processor = Qwen2VLVideoProcessor(**settings)
    geometry = geometry_of("qwen2_vl", settings)
    for frames, height, width in sizes(2):
        ours = geometry.grid(frames, *geometry.frame_size(frames, height, width))
        assert np.prod(ours) == processor.get_num_of_video_patches(frames, height, width, {})


@pytest.mark.parametrize(("family", "factor"), [("qwen2_vl", 28), ("qwen3_vl", 32)])
def test_large_frames_of_hub_checkpoints_get_what_the_authors_tool_gives(
    family: str, factor: int
) -> None:
    """The checkpoints alone would allow frames of 16,384 tokens, 64 of which fill any context."""
    geometry = geometry_of(family, HUB[family])
    least = utils.VIDEO_MIN_TOKEN_NUM * factor**2
    most = utils.VIDEO_MAX_TOKEN_NUM * factor**2
    for frames, height, width in sizes(3, least=400):
        frames = 2 * (frames // 10) + 2
        budget = utils.MODEL_SEQ_LEN * factor**2 * 0.9 / (frames + frames % 2) * utils.FRAME_FACTOR
        cap = max(min(most, budget), int(least * 1.05))
        expected = utils.smart_resize(height, width, factor, min_pixels=least, max_pixels=cap)
        if height * width >= least:
            assert geometry.frame_size(frames, height, width) == expected


def test_the_default_cap_gives_way_to_the_users(tmp_path: Path) -> None:
    for family, factor in (("qwen2_vl", 28), ("qwen3_vl", 32)):
        geometry = geometry_of(family, HUB[family])
        height, width = geometry.frame_size(8, 2160, 3840)
        assert height * width <= 768 * factor**2
        height, width = geometry.frame_size(8, 2160, 3840, max_pixels=2_000_000)
        assert 1_700_000 < height * width <= 2_000_000
        height, width = geometry.frame_size(8, 2160, 3840, max_pixels=100_000)
        assert 70_000 < height * width <= 100_000


@pytest.mark.parametrize(("context", "most"), [(32_768, 0.9 * 32_768), (128_000, 0.9 * 128_000)])
def test_a_whole_video_leaves_room_in_the_context(context: int, most: float) -> None:
    geometry = geometry_of("qwen2_vl", HUB["qwen2_vl"], max_position_embeddings=context)
    for frames in (64, 256, 768):
        size = geometry.frame_size(frames, 1080, 1920, max_pixels=10**7)
        assert geometry.visual_tokens(frames, *size) <= most


def test_64_frames_of_a_hub_checkpoint_are_24576_tokens_at_most() -> None:
    """The limit under which the authors of Qwen2.5-VL report their results."""
    for family in ("qwen2_vl", "qwen2_5_vl"):
        geometry = geometry_of(family, HUB["qwen2_vl"])
        size = geometry.frame_size(64, 2160, 3840)
        assert 20_000 < geometry.visual_tokens(64, *size) <= 24_576


def test_qwen3_frames_that_cannot_be_used() -> None:
    geometry = geometry_of("qwen3_vl", HUB["qwen3_vl"])
    for height, width in ((10, 8000), (8000, 10), (0, 5)):
        with pytest.raises(InputError, match="frame too narrow"):
            geometry.frame_size(4, height, width)
    assert geometry.frame_size(1, 64, 96) == geometry.frame_size(2, 64, 96) == (64, 96)
    assert geometry.visual_tokens(5, 64, 96) == 3 * 2 * 3
    with pytest.raises(ValueError, match="multiple of 32"):
        geometry.visual_tokens(5, 65, 96)


def test_llava_takes_one_size_and_its_processors_count() -> None:
    geometry = geometry_of("llava_onevision", {})
    size = LlavaOnevisionVideoProcessor().size
    for frames, height, width in sizes(4):
        assert geometry.frame_size(frames, height, width) == (size["height"], size["width"])
        assert geometry.visual_tokens(frames, 384, 384) == frames * 196
    assert geometry.pad_frames(5) == 5
    assert geometry.seconds_per_grid(2.0) == 0.5
    assert geometry.placeholders.vision_start_token is None
    with pytest.raises(InputError, match="384x384 pixels only"):
        geometry.frame_size(8, 480, 640, max_pixels=100_000)
    with pytest.raises(ValueError, match="not 384x384"):
        geometry.visual_tokens(8, 378, 384)


@pytest.mark.parametrize(
    ("processor", "config", "words"),
    [
        ({"size": {"height": 336, "width": 336}}, {}, "frames of 336x336, the model takes 384"),
        ({}, {"vision_config": {"patch_size": 0}}, "patches of 0"),
        ({}, {"vision_config": {"image_size": "big"}}, "is broken"),
        ({}, {"vision_feature_select_strategy": "default"}, "selects 'default' features"),
    ],
)
def test_llava_checkpoints_that_contradict_themselves(
    processor: dict[str, Any], config: dict[str, Any], words: str
) -> None:
    with pytest.raises(ModelError, match=words):
        geometry_of("llava_onevision", processor, **config)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_reads_the_files_of_its_own_checkpoints(family: str, tmp_path: Path) -> None:
    from tests.models.families import write_family
    from vidcap.models.geometry import read_geometry

    geometry = read_geometry(write_family(tmp_path, family))
    config = json.loads((tmp_path / "config.json").read_text())
    named = config.get("video_token_id", config.get("video_token_index"))
    assert geometry.family == family
    assert geometry.placeholders.video_token_id == named
    added = json.loads((tmp_path / "tokenizer.json").read_text())["added_tokens"]
    assert {item["content"]: item["id"] for item in added}[
        geometry.placeholders.video_token
    ] == named
