"""The torch-free geometry against the released processors and qwen-vl-utils."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from qwen_vl_utils.vision_process import smart_resize
from tokenizers import Tokenizer, models
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLProcessor,
    Qwen2VLConfig,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

from vidcap.errors import InputError, ModelError
from vidcap.models.geometry import QwenVLGeometry, read_geometry

BOUNDS = [
    (128 * 784, 768 * 784),  # the default of the video processor and of qwen-vl-utils
    (56 * 56, 16384 * 784),  # the hub's Qwen2.5-VL checkpoints
    (16 * 784, 64 * 784),
]


def write_checkpoint(folder: Path, processor: dict[str, Any], **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"model_type": "qwen2_5_vl", "vision_config": {"patch_size": 14}, **config}
    (folder / "config.json").write_text(json.dumps(content))
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def geometry_of(folder: Path, bounds: tuple[int, int], **processor: Any) -> QwenVLGeometry:
    keys = {"min_pixels": bounds[0], "max_pixels": bounds[1], **processor}
    geometry = read_geometry(write_checkpoint(folder, keys))
    assert isinstance(geometry, QwenVLGeometry)
    return geometry


def processor_grid(
    processor: Qwen2VLVideoProcessor, n_frames: int, height: int, width: int
) -> list[int]:
    """The grid that the released code makes, without paying for the pixels.

    The frames are views of one element, so that only the resized video takes memory.
    """
    video = torch.zeros(1, dtype=torch.uint8).expand(n_frames, 3, height, width)
    return processor(videos=[video], return_tensors="pt")["video_grid_thw"][0].tolist()


def our_grid(geometry: QwenVLGeometry, n_frames: int, height: int, width: int) -> list[int]:
    return list(geometry.grid(n_frames, *geometry.frame_size(n_frames, height, width)))


@pytest.mark.parametrize("n_frames", [1, 2, 5, 8])
@pytest.mark.parametrize(
    ("height", "width"),
    [(1, 1), (7, 5), (10, 300), (240, 320), (333, 777), (360, 640), (1280, 720), (1080, 1920)],
)
def test_grid_equals_the_processor(tmp_path: Path, n_frames: int, height: int, width: int) -> None:
    for index, (lower, upper) in enumerate([BOUNDS[0], BOUNDS[2]]):
        geometry = geometry_of(tmp_path / str(index), (lower, upper))
        processor = Qwen2VLVideoProcessor(
            min_pixels=lower, max_pixels=upper, cap_pixels_per_frame=True
        )
        expected = processor_grid(processor, n_frames, height, width)
        assert our_grid(geometry, n_frames, height, width) == expected


@pytest.mark.parametrize("n_frames", [6, 9, 40])
def test_budget_for_a_whole_video_equals_the_processor(tmp_path: Path, n_frames: int) -> None:
    bounds = (16 * 784, 768 * 784)
    capped = {"cap_pixels_per_frame": True, "max_video_tokens": 2000}
    geometry = geometry_of(tmp_path, bounds, **capped)
    processor = Qwen2VLVideoProcessor(min_pixels=bounds[0], max_pixels=bounds[1], **capped)
    assert our_grid(geometry, n_frames, 960, 1280) == processor_grid(processor, n_frames, 960, 1280)
    assert geometry.pixel_cap(n_frames) < bounds[1] < 960 * 1280


def test_budget_is_off_where_the_checkpoint_says_so(tmp_path: Path) -> None:
    free = geometry_of(tmp_path / "free", BOUNDS[1], cap_pixels_per_frame=False)
    capped = geometry_of(tmp_path / "capped", BOUNDS[1])
    assert free.frame_size(256, 2160, 3840) == (2156, 3836)
    height, width = capped.frame_size(256, 2160, 3840)
    assert capped.visual_tokens(256, height, width) <= 0.9 * 128_000


@settings(max_examples=300, deadline=None)
@given(
    height=st.integers(28, 5000),
    width=st.integers(28, 5000),
    bounds=st.sampled_from(BOUNDS),
)
def test_size_equals_qwen_vl_utils_for_ordinary_frames(
    height: int, width: int, bounds: tuple[int, int]
) -> None:
    if max(height, width) > 20 * min(height, width):
        width = height
    geometry = plain_geometry(bounds)
    expected = smart_resize(height, width, 28, min_pixels=bounds[0], max_pixels=bounds[1])
    assert geometry.frame_size(2, height, width) == expected


@settings(max_examples=400, deadline=None)
@given(
    height=st.integers(1, 9000),
    width=st.integers(1, 9000),
    n_frames=st.integers(1, 3000),
    lower=st.integers(1, 200 * 784),
    slack=st.integers(0, 2000 * 784),
    max_pixels=st.none() | st.integers(1, 2_000_000),
)
def test_any_frame_gets_a_valid_size_or_an_input_error(
    height: int, width: int, n_frames: int, lower: int, slack: int, max_pixels: int | None
) -> None:
    geometry = plain_geometry((lower, lower + slack))
    try:
        size = geometry.frame_size(n_frames, height, width, max_pixels)
    except InputError:
        assert max(height, width) > 20 * min(height, width)
        return
    assert min(size) >= 28
    assert geometry.visual_tokens(n_frames, *size) >= 1
    cap = geometry.pixel_cap(n_frames)
    cap = cap if max_pixels is None else min(cap, max_pixels)
    room_for_rounding = cap >= 4 * lower
    assert size[0] * size[1] <= max(cap, 784)
    if room_for_rounding:
        assert geometry.frame_size(n_frames, *size, max_pixels) == size


def plain_geometry(bounds: tuple[int, int]) -> QwenVLGeometry:
    from vidcap.models.geometry.patches import qwen_placeholders

    return QwenVLGeometry(
        family="qwen2_5_vl",
        patch_size=14,
        merge_size=2,
        temporal_patch_size=2,
        min_pixels=bounds[0],
        max_pixels=bounds[1],
        max_video_tokens=128_000,
        placeholders=qwen_placeholders({}),
    )


@pytest.mark.parametrize(
    ("height", "width"), [(240, 320), (1080, 1920), (28, 28 * 190), (7, 5), (30, 900)]
)
def test_processor_keeps_frames_of_our_size(tmp_path: Path, height: int, width: int) -> None:
    bounds = (4 * 784, 100 * 784)
    geometry = geometry_of(tmp_path, bounds)
    size = geometry.frame_size(4, height, width)
    processor = Qwen2VLVideoProcessor(
        min_pixels=bounds[0], max_pixels=bounds[1], cap_pixels_per_frame=True
    )
    rng = np.random.default_rng(0)
    frames = torch.from_numpy(rng.integers(0, 256, (4, 3, *size), dtype=np.uint8))
    resized = processor(videos=[frames], return_tensors="pt")
    kept = processor(videos=[frames], return_tensors="pt", do_resize=False)
    assert resized["video_grid_thw"][0].tolist() == list(geometry.grid(4, *size))
    assert torch.equal(resized["pixel_values_videos"], kept["pixel_values_videos"])


@pytest.mark.parametrize("size", [(10, 8000), (8000, 10), (0, 5)])
def test_too_narrow_frames_are_an_input_error(size: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=f"frame too narrow \\({size[1]}x{size[0]}\\)"):
        plain_geometry(BOUNDS[0]).frame_size(4, *size)


def test_own_cap_wins_over_the_bounds_of_the_model() -> None:
    geometry = plain_geometry(BOUNDS[0])
    assert geometry.frame_size(4, 720, 1280, max_pixels=50_000) == (140, 308)
    assert geometry.frame_size(4, 720, 1280, max_pixels=1) == (28, 28)
    assert geometry.frame_size(4, 720, 1280, max_pixels=10**9) == geometry.frame_size(4, 720, 1280)


def test_counts() -> None:
    geometry = plain_geometry(BOUNDS[0])
    assert [geometry.pad_frames(n) for n in (1, 2, 3, 64)] == [2, 2, 4, 64]
    assert geometry.visual_tokens(5, 280, 560) == 3 * 10 * 20
    assert geometry.grid(5, 280, 560) == (3, 20, 40)
    assert geometry.seconds_per_grid(2.0) == 1.0
    assert geometry.seconds_per_grid(8.0) == 0.25
    with pytest.raises(ValueError, match="multiple of 28"):
        geometry.visual_tokens(5, 281, 560)


@pytest.mark.parametrize("config_class", [Qwen2_5_VLConfig, Qwen2VLConfig])
def test_reads_what_transformers_writes(tmp_path: Path, config_class: Any) -> None:
    config_class(video_token_id=7, vision_start_token_id=8).save_pretrained(tmp_path)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|image_pad|>", "<|video_pad|>"]})
    video = Qwen2VLVideoProcessor(min_pixels=5000, max_pixels=90_000)
    Qwen2_5_VLProcessor(Qwen2VLImageProcessor(), tokenizer, video).save_pretrained(tmp_path)
    geometry = read_geometry(tmp_path)
    assert isinstance(geometry, QwenVLGeometry)
    assert geometry.family == config_class.model_type
    assert (geometry.min_pixels, geometry.max_pixels) == (5000, 90_000)
    assert (geometry.patch_size, geometry.merge_size, geometry.temporal_patch_size) == (14, 2, 2)
    assert geometry.placeholders.video_token_id == 7
    assert geometry.placeholders.vision_start_token_id == 8
    assert geometry.placeholders.video_token == "<|video_pad|>"


def test_order_of_the_processor_files_is_that_of_transformers(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {"min_pixels": 1000, "max_pixels": 2000})
    assert loaded_bounds(tmp_path) == our_bounds(tmp_path) == (1000, 2000)
    video = {"size": {"shortest_edge": 3000, "longest_edge": 4000}}
    (tmp_path / "video_preprocessor_config.json").write_text(json.dumps(video))
    assert loaded_bounds(tmp_path) == our_bounds(tmp_path) == (3000, 4000)
    (tmp_path / "processor_config.json").write_text(json.dumps({"processor_class": "X"}))
    assert loaded_bounds(tmp_path) == our_bounds(tmp_path) == (3000, 4000)
    nested = {"size": {"shortest_edge": 5, "longest_edge": 6}, "max_pixels": 7000}
    (tmp_path / "processor_config.json").write_text(json.dumps({"video_processor": nested}))
    assert loaded_bounds(tmp_path) == our_bounds(tmp_path) == (5, 7000)


def loaded_bounds(folder: Path) -> tuple[int, int]:
    size = Qwen2VLVideoProcessor.from_pretrained(folder).size
    return size["shortest_edge"], size["longest_edge"]


def our_bounds(folder: Path) -> tuple[int, int]:
    geometry = read_geometry(folder)
    assert isinstance(geometry, QwenVLGeometry)
    return geometry.min_pixels, geometry.max_pixels


def test_unknown_family_is_named_with_those_that_are_known(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {}, model_type="llama")
    with pytest.raises(ModelError, match="unsupported model type 'llama'") as caught:
        read_geometry(tmp_path)
    assert caught.value.hint == "supported types: llava_onevision, qwen2_5_vl, qwen2_vl, qwen3_vl"


def test_broken_folders_are_model_errors(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json is missing"):
        read_geometry(tmp_path / "nowhere")
    folder = write_checkpoint(tmp_path / "a", {})
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(ModelError, match="no video processor"):
        read_geometry(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match="cannot read"):
        read_geometry(folder)
    (folder / "config.json").write_text("[1]")
    with pytest.raises(ModelError, match="not a JSON object"):
        read_geometry(folder)


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        ({"patch_size": 16}, "has patch_size 16, the model 14"),
        ({"patch_size": "big"}, "is broken"),
        ({"merge_size": 0}, "has merge_size 0"),
    ],
)
def test_processor_that_contradicts_the_model(
    tmp_path: Path, processor: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        read_geometry(write_checkpoint(tmp_path, processor))


def test_needs_neither_torch_nor_transformers() -> None:
    code = (
        "import sys, vidcap.models.geometry;"
        "print(sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
