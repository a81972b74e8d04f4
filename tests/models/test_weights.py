"""Checkpoint folders that are broken or made to harm: one clear line, and nothing else happens."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.models.families import change_json, write_family
from vidcap.errors import ModelError
from vidcap.models.hub import check_folder
from vidcap.models.loading import load_model
from vidcap.models.weights import INDEX, read_header, stored_tensors, weight_files

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family(tmp_path_factory.mktemp("shards"), "qwen2_vl", shard_size="300KB")


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family(tmp_path_factory.mktemp("single"), "qwen2_vl")


@pytest.fixture
def folder(shards: Path, tmp_path: Path) -> Path:
    shutil.copytree(shards, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def one_file(single: Path, tmp_path: Path) -> Path:
    shutil.copytree(single, tmp_path / "model")
    return tmp_path / "model"


def refuse(folder: Path, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        load_model(folder, CPU, torch.float32)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 400


def test_headers_tell_what_the_files_hold(shards: Path) -> None:
    expected: dict[str, Any] = {}
    for file in weight_files(shards):
        expected |= load_file(file)
    found = stored_tensors(shards)
    assert len(weight_files(shards)) > 2
    assert {name: item.shape for name, item in found.items()} == {
        name: tuple(tensor.shape) for name, tensor in expected.items()
    }
    assert {item.dtype for item in found.values()} == {"F32"}


@pytest.mark.parametrize("size", [0, 4, 200, -100])
def test_truncated_shards(folder: Path, size: int) -> None:
    file = weight_files(folder)[1]
    file.write_bytes(file.read_bytes()[:size])
    refuse(folder, rf"{file.name} is damaged: ")


def test_a_missing_shard_and_a_missing_index(folder: Path) -> None:
    files = weight_files(folder)
    (folder / INDEX).rename(folder / "kept")
    with pytest.raises(ModelError, match=f"1 weight files are missing, {INDEX}"):
        check_folder(folder)
    refuse(folder, "incomplete")
    (folder / "kept").rename(folder / INDEX)
    files[0].unlink()
    refuse(folder, f"1 weight files are missing, {files[0].name}")


@pytest.mark.parametrize(
    "name",
    [
        "../../secret.safetensors",
        "/etc/passwd",
        "sub/model.safetensors",
        "..\\x.safetensors",
        ".hidden.safetensors",
        "pytorch_model.bin",
        "",
        7,
        None,
        ["model.safetensors"],
    ],
)
def test_names_in_the_index_stay_in_the_folder(folder: Path, name: object) -> None:
    index = json.loads((folder / INDEX).read_text())
    tensor = next(iter(index["weight_map"]))
    index["weight_map"][tensor] = name
    (folder / INDEX).write_text(json.dumps(index))
    refuse(folder, "which is no weight file")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {}}'])
def test_an_index_that_is_none(folder: Path, content: str) -> None:
    (folder / INDEX).write_text(content)
    refuse(folder, "cannot read|names no weights")


def header(entries: dict[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "content",
    [
        header({"a": {"dtype": "F32", "shape": [10**9, 10**9], "data_offsets": [0, 8]}}, b"x" * 8),
        header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 10**15]}}, b"x" * 8),
        header({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}, b"x" * 8),
        header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}, b"x" * 8),
        header({"a": {"dtype": "F32", "shape": ["2"], "data_offsets": [0, 8]}}, b"x" * 8),
        header({"a": {"dtype": "F32"}}),
        header({"a": 5}),
        struct.pack("<Q", 2**62) + b"{}",
        struct.pack("<Q", 20_000) + b"[" * 20_000,
        b"\x80\x04 a pickle, by another name",
    ],
    ids=[
        "huge",
        "offset",
        "negative",
        "backwards",
        "words",
        "bare",
        "number",
        "long",
        "deep",
        "pickle",
    ],
)
def test_headers_that_lie(one_file: Path, content: bytes) -> None:
    file = one_file / "model.safetensors"
    file.write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged"):
        read_header(file)
    refuse(one_file, r"model\.safetensors is damaged")


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file, metadata={"format": "pt"})


def test_weights_of_another_shape(one_file: Path) -> None:
    def turn(tensors: dict[str, torch.Tensor]) -> None:
        name = "model.layers.0.mlp.down_proj.weight"
        tensors[name] = tensors[name].T.contiguous()

    rewrite(one_file, turn)
    refuse(one_file, "cannot be loaded: ")


def test_a_tensor_that_is_not_there_is_not_made_up(one_file: Path) -> None:
    def rename(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.layers.0.mlp.extra"] = tensors.pop("model.layers.0.mlp.down_proj.weight")

    rewrite(one_file, rename)
    refuse(one_file, r"lacks weights: .*layers\.0\.mlp\.down_proj\.weight for one")


@pytest.mark.parametrize(
    ("part", "values", "words"),
    [
        ("text_config", {"num_hidden_layers": 10**9}, "describes 1000000002 layers"),
        ("vision_config", {"depth": 10**9}, "describes 1000000003 layers"),
        ("vision_config", {"depth": -1}, "is broken: -1 layers"),
        ("text_config", {"vocab_size": 10**9}, "describes .* parameters, its files hold"),
        ("text_config", {"intermediate_size": 10**9}, "describes .* parameters, its files hold"),
        ("text_config", {"num_hidden_layers": "many"}, "is broken: 'many' layers"),
        ("text_config", {"hidden_size": -4}, "cannot be loaded|describes"),
    ],
)
def test_declared_sizes_are_held_against_the_files_before_memory_is_taken(
    one_file: Path, part: str, values: dict[str, Any], words: str
) -> None:
    config = json.loads((one_file / "config.json").read_text())
    values = config[part] | values
    values.pop("layer_types", None)
    change_json(one_file, "config.json", **{part: values})
    refuse(one_file, words)


def test_code_in_a_checkpoint_is_never_run(one_file: Path) -> None:
    trap = one_file / "sprung"
    code = f"open({str(trap)!r}, 'w').close()\nclass Trap: pass\n"
    for name in ("modeling_trap", "configuration_trap", "processing_trap"):
        (one_file / f"{name}.py").write_text(code)
    for file, kinds in (
        ("config.json", {"AutoConfig": "configuration_trap.Trap"}),
        ("processor_config.json", {"AutoProcessor": "processing_trap.Trap"}),
    ):
        kinds |= {"AutoModelForImageTextToText": "modeling_trap.Trap"}
        change_json(one_file, file, auto_map=kinds)
    assert load_model(one_file, CPU, torch.float32).model is not None
    assert not trap.exists()


def test_pickled_weights_are_not_opened(one_file: Path) -> None:
    (one_file / "model.safetensors").rename(one_file / "pytorch_model.bin")
    refuse(one_file, "holds no safetensors weights")
