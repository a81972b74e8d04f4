"""Checkpoints whose packed weights are unpacked while they are loaded."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engine.runs import Run
from tests.models.families import BUILDERS, change_json, write_family
from tests.models.family_checks import frames_for
from tests.models.packed_files import BLOCK, FORMS, write_packed
from vidcap.errors import ModelError, UsageError
from vidcap.models import stored
from vidcap.models.facts import read_facts
from vidcap.models.lean import has_lean_form
from vidcap.models.loading import LoadedPair, load_model, load_pair_folders
from vidcap.models.memory import pair_memory
from vidcap.models.pair import find_pair
from vidcap.models.stored import check_stored
from vidcap.models.work import Form, Load
from vidcap.settings import ModelSettings, method_settings

METHODS = ("plain", "sd-tree", "specvlm", "parallelvlm")
UP = "model.layers.0.mlp.up_proj"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family(tmp_path_factory.mktemp("full"), "qwen2_5_vl")


@pytest.fixture
def packed(full: Path, tmp_path: Path) -> Path:
    write_packed(full, tmp_path / "packed", "w4a16")
    return tmp_path / "packed"


def load(target: Path, draft: Path, **parts: Any) -> LoadedPair:
    settings = ModelSettings(
        pair=f"{target}+{draft}", device="cpu", dtype="float32", threads=1, **parts
    )
    return load_pair_folders(find_pair(settings, needs_draft=True), settings)


def change_tensors(folder: Path, *left_out: str, **added: torch.Tensor) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path) | {f"{UP}.{name}": tensor for name, tensor in added.items()}
    kept = {name: tensor for name, tensor in tensors.items() if name not in left_out}
    save_file(kept, path, metadata={"format": "pt"})


@torch.inference_mode()
@pytest.mark.parametrize("form", FORMS)
def test_lossless_methods_equal_generate_on_the_unpacked_weights(
    full: Path, tmp_path: Path, form: str
) -> None:
    folder = tmp_path / "packed"
    rounded = write_packed(full, folder, form)
    method = FORMS[form][1]["quant_method"]
    pair = load(folder, full)
    check_weights(pair.target.model, rounded)
    assert pair.dtype == f"float32, unpacked {method} weights"
    assert has_lean_form(pair.target.model.model.language_model)
    inputs = pair.target.prepare(frames_for(pair.target, 5), 2.0)
    run = Run(pair.target, pair.draft, inputs, max_tokens=12)
    expected = run.transformers("What moves?")
    for name in METHODS:
        assert run.ask("What moves?", method_settings(name))[0] == expected, name
    # Small on the disk and full in memory, with fused and packed copies as full models have them.
    facts, known = read_facts(folder), read_facts(full)
    assert facts.quantization == method
    assert facts.weight_bytes < 0.75 * known.weight_bytes
    assert facts.parameters == known.parameters
    run_form = Form("float32", on_cpu=True)
    ours, theirs = (
        pair_memory(each, None, Load(10, 10, 1), run_form).target for each in (facts, known)
    )
    assert ours == theirs
    for words in ({"quantize": "int8"}, {"tensor_parallel": 2}):
        with pytest.raises((ModelError, UsageError), match=f"is quantized by {method}"):
            load(folder, full, **words)


@pytest.mark.parametrize("form", ["fp8", "w4a16", "awq", "gptq-v2"])
@pytest.mark.parametrize("family", BUILDERS)
def test_every_family_has_the_weights_that_the_files_stand_for(
    tmp_path: Path, family: str, form: str
) -> None:
    full = write_family(tmp_path / "full", family)
    rounded = write_packed(full, tmp_path / "packed", form)
    assert len(rounded) == 3 * 7
    check_weights(
        load_model(tmp_path / "packed", torch.device("cpu"), torch.float32).model, rounded
    )


def check_weights(model: Any, rounded: dict[str, torch.Tensor]) -> None:
    """The model is a full one, with the weights that the packed ones stand for."""
    layers = model.model.language_model.layers
    for name, weight in rounded.items():
        index, path = re.search(r"layers\.(\d+)\.(.*)\.weight", name).groups()
        module = layers[int(index)].get_submodule(path)
        assert type(module) is torch.nn.Linear
        torch.testing.assert_close(module.weight.detach(), weight, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "nvfp4-pack-quantized"}, "in the format nvfp4-pack-quantized"),
        ({"transform_config": {"config_groups": {}, "x": 1}}, "with transforms"),
        ({"sparsity_config": {"format": "sparse-24-bitmask"}}, "with sparse weights"),
        ({"config_groups": {}}, "is broken: no scheme"),
        ({"config_groups": {"a": {"targets": ["Linear"]}}}, "is broken: no scheme"),
    ],
)
def test_what_would_be_unpacked_wrongly_is_refused(
    full: Path, packed: Path, changes: dict[str, Any], words: str
) -> None:
    quantization = json.loads((packed / "config.json").read_text())["quantization_config"]
    change_json(packed, "config.json", quantization_config=quantization | changes)
    with pytest.raises(ModelError, match=words):
        load(packed, full)


@pytest.mark.parametrize(
    ("form", "changes"),
    [
        ("awq", {"version": "gemv"}),
        ("awq", {"bits": 3}),
        ("gptq", {"bits": 3}),
        ("gptq", {"checkpoint_format": "marlin"}),
        ("gptq", {"dynamic": {"+:.*up_proj": {"bits": 8}}}),
    ],
)
def test_other_forms_of_awq_and_gptq_are_refused(
    full: Path, tmp_path: Path, form: str, changes: dict[str, Any]
) -> None:
    folder = tmp_path / "packed"
    write_packed(full, folder, form)
    quantization = FORMS[form][1] | changes
    change_json(folder, "config.json", quantization_config=quantization)
    with pytest.raises(ModelError, match=f"by {form} in a form that was never tried"):
        load(folder, full)


def test_two_schemes_are_refused(full: Path, packed: Path) -> None:
    quantization = json.loads((packed / "config.json").read_text())["quantization_config"]
    first = quantization["config_groups"]["group_0"]
    second = first | {"weights": first["weights"] | {"num_bits": 8}}
    quantization["config_groups"] = {"a": first, "b": second}
    change_json(packed, "config.json", quantization_config=quantization)
    with pytest.raises(ModelError, match="in 2 ways") as caught:
        load(packed, full)
    assert "one scheme for all layers" in (caught.value.hint or "")


def test_groups_in_an_order_of_their_own_are_refused(full: Path, packed: Path) -> None:
    change_tensors(packed, weight_g_idx=torch.zeros(64, dtype=torch.int32))
    with pytest.raises(ModelError, match=rf"the groups of {UP} are in an order"):
        load(packed, full)


@pytest.mark.parametrize(
    ("form", "end"),
    [("fp8", "weight_scale_inv"), ("w8a8", "weight_scale"), ("awq", "scales"), ("gptq", "qzeros")],
)
def test_a_weight_without_its_scale_is_not_taken_for_numbers(
    full: Path, tmp_path: Path, form: str, end: str
) -> None:
    write_packed(full, tmp_path / "packed", form)
    change_tensors(tmp_path / "packed", f"{UP}.{end}")
    with pytest.raises(ModelError, match=rf"lacks weights: {UP}\.{end} for one"):
        load(tmp_path / "packed", full)


def test_groups_that_there_are_none_of_are_refused(full: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    write_packed(full, folder, "gptq-v2")
    for group in (-1, 100):
        change_tensors(folder, g_idx=torch.full((64,), group, dtype=torch.int32))
        with pytest.raises(ModelError, match=r"cannot be loaded: (g_idx names|index 100 is out)"):
            load(folder, full)


def test_blocks_that_end_beyond_a_weight_are_refused(full: Path, tmp_path: Path) -> None:
    """transformers would take 96 rows in blocks of 64 for two blocks of 48."""
    folder = tmp_path / "packed"
    write_packed(full, folder, "fp8")
    quantization = json.loads((folder / "config.json").read_text())["quantization_config"]
    change_json(
        folder,
        "config.json",
        quantization_config=quantization | {"weight_block_size": [2 * BLOCK, 2 * BLOCK]},
    )
    with pytest.raises(ModelError, match="does not consist of whole blocks"):
        load(folder, full)


def test_a_configuration_may_not_describe_more_than_the_packed_files_hold(
    full: Path, packed: Path
) -> None:
    text = json.loads((packed / "config.json").read_text())["text_config"]
    change_json(packed, "config.json", text_config=text | {"vocab_size": 10**6})
    with pytest.raises(ModelError, match=r"describes \d+ parameters, its files hold"):
        load(packed, full)


def test_the_missing_package_is_named(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "find_spec", lambda name: None)
    config = json.loads((packed / "config.json").read_text())
    with pytest.raises(ModelError, match="the package compressed-tensors is missing"):
        check_stored(config, "it")
    check_stored({"quantization_config": {"quant_method": "fp8"}}, "it")


def test_what_a_checkpoint_says_about_unpacking_does_not_count(full: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    write_packed(full, folder, "w8a8")
    shutil.copytree(folder, tmp_path / "other")
    quantization = json.loads((folder / "config.json").read_text())["quantization_config"]
    change_json(
        tmp_path / "other",
        "config.json",
        quantization_config=quantization | {"dequantize": False, "run_compressed": True},
    )
    cpu = torch.device("cpu")
    first, second = (
        load_model(path, cpu, torch.float32).model for path in (folder, tmp_path / "other")
    )
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)
