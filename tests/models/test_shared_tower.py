"""One run of the vision tower for a pair with equal trunks, and none for any other pair."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.models.families import TARGET, change_json
from tests.models.family_checks import frames_for
from tests.models.towers import blocks_run, change_weights, load_pair, write_pair
from vidcap.engine.model import EncodedPrefix
from vidcap.models.loading import load_model
from vidcap.models.shared_tower import share_tower

FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")
CPU = torch.device("cpu")


def apart(folder: Path) -> dict[str, Any]:
    """Both models, each with a tower of its own."""
    return {name: load_model(folder / name, CPU, torch.float32) for name in ("target", "draft")}


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("qwen"), "qwen2_5_vl")


def video(model: Any, count: int = 6) -> Any:
    return model.prepare(frames_for(model, count), fps=2.0)


def assert_same(ours: EncodedPrefix, expected: EncodedPrefix) -> None:
    """Bit for bit."""
    assert ours.embeds.abs().sum() > 0
    assert torch.equal(ours.embeds, expected.embeds)
    assert torch.equal(ours.position_ids, expected.position_ids)
    assert (ours.grid, ours.suffix_start) == (expected.grid, expected.suffix_start)
    assert len(ours.deepstack) == len(expected.deepstack)
    assert all(map(torch.equal, ours.deepstack, expected.deepstack))


@torch.inference_mode()
def test_both_models_see_what_their_own_towers_show_them(folder: Path) -> None:
    pair, expected = load_pair(folder, dtype="float32"), apart(folder)
    assert not pair.tower.whole
    for count in (1, 6):
        inputs = video(pair.target, count)
        opened = pair.tower.open(inputs, "reference")
        with blocks_run(pair) as calls:
            assert_same(opened.target(), expected["target"].encode(inputs, "reference"))
            assert_same(opened.draft(), expected["draft"].encode(inputs, "reference"))
        assert len(calls) == 1


@torch.inference_mode()
def test_a_draft_that_shares_still_runs_by_itself(folder: Path) -> None:
    pair, expected = load_pair(folder, dtype="float32"), apart(folder)
    inputs = video(pair.target)
    with blocks_run(pair) as calls:
        assert_same(
            pair.draft.encode(inputs, "reference"), expected["draft"].encode(inputs, "reference")
        )
    assert len(calls) == 1


@torch.inference_mode()
@pytest.mark.parametrize("family", FAMILIES)
def test_equal_mergers_share_their_features(tmp_path: Path, family: str) -> None:
    pair = load_pair(
        write_pair(tmp_path, family, replace(TARGET, layers=2), mergers=True), dtype="float32"
    )
    assert pair.tower.whole
    inputs, calls = video(pair.target), []
    opened = pair.tower.open(inputs, "reference")
    merger = pair.target.model.model.visual.merger
    handle = merger.register_forward_pre_hook(lambda *_: calls.append(1))
    prefixes = {"target": opened.target(), "draft": opened.draft()}
    handle.remove()
    assert len(calls) == 1
    for name, model in apart(tmp_path).items():
        assert_same(prefixes[name], model.encode(inputs, "reference"))


@torch.inference_mode()
def test_in_half_precision_features_are_those_of_the_own_tower(qwen: Path) -> None:
    pair = load_pair(qwen, dtype="bfloat16")
    inputs = video(pair.target)
    opened = pair.tower.open(inputs, "reference")
    opened.target()
    own = load_model(qwen / "draft", CPU, torch.bfloat16)
    assert_same(opened.draft(), own.encode(inputs, "reference"))


def test_the_trunk_is_kept_once(qwen: Path) -> None:
    pair = load_pair(qwen, dtype="float32")
    tensors = [
        {weight.data_ptr() for weight in model.model.model.visual.parameters()}
        for model in (pair.target, pair.draft)
    ]
    mergers = len(list(pair.draft.model.model.visual.merger.parameters()))
    assert len(tensors[0] & tensors[1]) == len(tensors[0]) - mergers


def nudge(mark: str) -> Callable[[Path], None]:
    """A change of a single number of a draft's weights."""

    def change(weights: dict[str, Any]) -> None:
        name = next(name for name in weights if mark in name)
        weights[name].view(-1)[0] += 1e-3

    return lambda draft: change_weights(draft, change)


def change_vision(draft: Path, **values: object) -> None:
    config = json.loads((draft / "config.json").read_text())
    change_json(draft, "config.json", vision_config=config["vision_config"] | values)


def change_mean(draft: Path) -> None:
    config = json.loads((draft / "processor_config.json").read_text())
    video = config["video_processor"] | {"image_mean": [0.1, 0.2, 0.3]}
    change_json(draft, "processor_config.json", video_processor=video)


DIFFERENT: dict[str, Callable[[Path], None]] = {
    "first weight": nudge("patch_embed"),
    "last block": nudge("blocks.1.mlp.down_proj.weight"),
    "a bias": nudge("blocks.0.attn.qkv.bias"),
    "heads": lambda draft: change_vision(draft, num_heads=4),
    "windows": lambda draft: change_vision(draft, fullatt_block_indexes=[0]),
    "preprocessing": change_mean,
}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_trunks_that_differ_are_not_shared(tmp_path: Path, change: Callable[[Path], None]) -> None:
    write_pair(tmp_path, "qwen2_5_vl")
    change(tmp_path / "draft")
    models = apart(tmp_path)
    names = [name for name, _ in models["draft"].model.named_parameters()]
    assert share_tower(models["target"], models["draft"]) is None
    assert names == [name for name, _ in models["draft"].model.named_parameters()]


def test_towers_in_other_formats_or_places_are_not_shared(qwen: Path) -> None:
    models = apart(qwen)
    half = load_model(qwen / "draft", CPU, torch.bfloat16)
    assert share_tower(models["target"], half) is None
    for model in models.values():
        model.model.model.visual.to("meta")
    assert share_tower(models["target"], models["draft"]) is None


def test_a_tower_without_a_known_merger_is_not_shared(tmp_path: Path) -> None:
    pair = load_pair(write_pair(tmp_path, "llava_onevision"), dtype="float32")
    assert pair.tower is None


@torch.inference_mode()
def test_nothing_is_kept_of_a_video_that_both_have_seen(qwen: Path) -> None:
    pair = load_pair(qwen, dtype="float32")
    inputs, states = video(pair.target), []
    pixels = weakref.ref(inputs.tensors["pixel_values_videos"])
    opened = pair.tower.open(inputs, "reference")
    del inputs
    merger = pair.target.model.model.visual.merger
    handle = merger.register_forward_pre_hook(lambda _, args: states.append(weakref.ref(args[0])))
    opened.target()
    handle.remove()
    gc.collect()
    assert pixels() is None
    assert states[0]() is not None
    opened.draft()
    gc.collect()
    assert states[0]() is None


@torch.inference_mode()
def test_the_draft_comes_second_and_once(qwen: Path) -> None:
    pair = load_pair(qwen, dtype="float32")
    opened = pair.tower.open(video(pair.target), "reference")
    with pytest.raises(ValueError, match="no states of the target's vision tower"):
        opened.draft()
    opened.target()
    opened.draft()
    with pytest.raises(ValueError, match="no states of the target's vision tower"):
        opened.draft()


def test_videos_of_several_threads_do_not_mix(qwen: Path) -> None:
    pair, expected = load_pair(qwen, dtype="float32"), apart(qwen)
    together = threading.Barrier(2)

    @torch.inference_mode()
    def encode(count: int) -> None:
        inputs = video(pair.target, count)
        opened = pair.tower.open(inputs, "reference")
        for _ in range(3):
            together.wait(timeout=30)
            prefix = opened.target()
            together.wait(timeout=30)
            assert_same(opened.draft(), expected["draft"].encode(inputs, "reference"))
            assert_same(prefix, expected["target"].encode(inputs, "reference"))
            opened = pair.tower.open(inputs, "reference")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(encode, (4, 10)))
