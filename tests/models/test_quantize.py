"""Packed weights: smaller, close to the originals, and exact with respect to themselves."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engine.runs import Run
from tests.models.families import write_family
from tests.models.family_checks import frames_for
from vidcap.errors import ModelError, UsageError
from vidcap.models.lean import has_lean_form
from vidcap.models.loading import LoadedPair, load_model, load_pair_folders
from vidcap.models.pair import find_pair
from vidcap.models.quantize import check_quantize
from vidcap.settings import ModelSettings, QuantizeName, method_settings

CPU = torch.device("cpu")
NAMES: list[QuantizeName] = ["int8", "int4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family(tmp_path_factory.mktemp("model"), "qwen2_5_vl")


def load(folder: Path, **parts: Any) -> LoadedPair:
    settings = ModelSettings(pair=f"{folder}+{folder}", device="cpu", dtype="float32", threads=1)
    settings = replace(settings, **parts)
    return load_pair_folders(find_pair(settings, needs_draft=True), settings)


@pytest.mark.parametrize("name", NAMES)
def test_strict_methods_equal_generate_of_the_packed_target(
    folder: Path, name: QuantizeName
) -> None:
    pair = load(folder, quantize=name)
    assert pair.dtype == f"float32, {name} weights"
    inputs = pair.target.prepare(frames_for(pair.target, 5), 2.0)
    run = Run(pair.target, pair.draft, inputs, max_tokens=10)
    expected = run.transformers("What moves?")
    for method in ("plain", "sd-tree", "specvlm"):
        assert run.ask("What moves?", method_settings(method))[0] == expected, method


@pytest.mark.parametrize("name", NAMES)
def test_only_the_decoder_layers_are_packed(folder: Path, name: QuantizeName) -> None:
    pair = load(folder, quantize=name)
    model, plain = pair.target.model, pair.draft.model
    packed = {
        path for path, weight in model.named_parameters() if type(weight) is not torch.nn.Parameter
    }
    layers = {path for path, _ in model.named_parameters() if "language_model.layers" in path}
    assert packed == {path for path in layers if path.endswith("proj.weight")}
    assert not has_lean_form(model.model.language_model)
    assert has_lean_form(plain.model.language_model)


@pytest.mark.parametrize(("name", "tolerance"), [("int8", 0.02), ("int4", 0.25)])
def test_packed_layers_are_close_to_the_original_ones(
    folder: Path, name: QuantizeName, tolerance: float
) -> None:
    pair = load(folder, quantize=name)
    states = torch.randn(1, 4, 64, generator=torch.Generator().manual_seed(0))
    ours, theirs = (
        item.model.model.language_model.layers[0].mlp for item in (pair.target, pair.draft)
    )
    with torch.no_grad():
        expected = theirs(states)
        error = (ours(states) - expected).norm() / expected.norm()
    assert 0 < error < tolerance


def test_a_packed_draft_leaves_the_targets_text(folder: Path) -> None:
    pair = load(folder, draft_quantize="int8")
    assert pair.dtype == "float32"
    inputs = pair.target.prepare(frames_for(pair.target, 5), 2.0)
    run = Run(pair.target, pair.draft, inputs, max_tokens=20)
    tokens, stats = run.ask("What moves?", method_settings("sd"))
    whole = load_model(folder, CPU, torch.float32)
    expected = Run(whole, whole, inputs, max_tokens=20).transformers("What moves?")
    assert tokens == expected
    assert stats.draft_acceptance_rate > 0.3


def test_what_cannot_be_packed_is_told_before_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="int4 runs on CPUs only, not on cuda:1"):
        check_quantize("int4", torch.device("cuda:1"))
    for name in ("torchao.quantization", "torchao.prototype.quantization.int4"):
        monkeypatch.setitem(sys.modules, name, None)
    check_quantize("none", CPU)
    for quantize in NAMES:
        with pytest.raises(ModelError, match=f"--quantize {quantize} needs torchao") as caught:
            check_quantize(quantize, CPU)
        assert "vidcap[quant]" in (caught.value.hint or "")
