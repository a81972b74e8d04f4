"""Checkpoints that are quantized already."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForImageTextToText,
    AutoProcessor,
    BitsAndBytesConfig,
    TorchAoConfig,
)

from tests.engine.runs import Run
from tests.models.families import change_json, write_family
from tests.models.family_checks import frames_for
from vidcap.errors import ModelError, UsageError
from vidcap.models import stored
from vidcap.models.facts import read_facts
from vidcap.models.lean import has_lean_form
from vidcap.models.loading import LoadedPair, load_pair_folders
from vidcap.models.memory import pair_memory
from vidcap.models.pair import find_pair
from vidcap.models.stored import check_stored, stored_quantization
from vidcap.models.work import Form, Load
from vidcap.settings import ModelSettings, method_settings

#: Layers that are too narrow for a block of 64 weights.
NARROW = ["model.visual", "lm_head"]
NARROW += [f"model.language_model.layers.{index}.mlp.down_proj" for index in range(3)]
METHODS = ("plain", "sd-tree", "specvlm", "parallelvlm")


def torchao() -> Any:
    from torchao.quantization import Int8WeightOnlyConfig

    return TorchAoConfig(Int8WeightOnlyConfig())


def four_bits(skip: list[str] | None) -> Any:
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.float32,
        llm_int8_skip_modules=skip,
    )


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family(tmp_path_factory.mktemp("full"), "qwen2_5_vl")


def quantized(full: Path, folder: Path, config: Any) -> Path:
    model = AutoModelForImageTextToText.from_pretrained(
        full, dtype=torch.float32, device_map="cpu", quantization_config=config
    )
    model.save_pretrained(folder)
    AutoProcessor.from_pretrained(full).save_pretrained(folder)
    return folder


def load(target: Path, draft: Path, **parts: Any) -> LoadedPair:
    settings = ModelSettings(
        pair=f"{target}+{draft}", device="cpu", dtype="float32", threads=1, **parts
    )
    return load_pair_folders(find_pair(settings, needs_draft=True), settings)


@torch.inference_mode()
@pytest.mark.parametrize(
    ("make", "words"),
    [(torchao, "torchao"), (lambda: four_bits(NARROW), "bitsandbytes 4-bit")],
    ids=["torchao", "bitsandbytes"],
)
def test_lossless_methods_equal_generate_on_the_same_weights(
    full: Path, tmp_path: Path, make: Any, words: str
) -> None:
    folder = quantized(full, tmp_path / "packed", make())
    pair = load(folder, full)
    assert pair.dtype == f"float32, {words} weights"
    projection = pair.target.model.model.language_model.layers[0].mlp.up_proj
    assert type(projection.weight) is not torch.nn.Parameter
    assert not has_lean_form(pair.target.model.model.language_model)
    inputs = pair.target.prepare(frames_for(pair.target, 5), 2.0)
    run = Run(pair.target, pair.draft, inputs, max_tokens=12)
    expected = run.transformers("What moves?")
    for method in METHODS:
        assert run.ask("What moves?", method_settings(method))[0] == expected, method
    states = torch.randn(1, 4, 64, generator=torch.Generator().manual_seed(0))
    original = pair.draft.model.model.language_model.layers[0].mlp.up_proj(states)
    error = (projection(states) - original).norm() / original.norm()
    assert 0 < error < 0.15
    # It is smaller on the disk and in the estimate, and packing it again is refused.
    facts = read_facts(folder)
    assert facts.quantization == words
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    kept = pair_memory(facts, None, Load(10, 10, 1), Form("float32", on_cpu=True)).target
    assert (kept.weights, kept.copies) == (size, 0)
    assert size < read_facts(full).weight_bytes
    with pytest.raises(UsageError, match=f"is quantized by {words} already"):
        load(folder, full, quantize="int8")
    with pytest.raises(UsageError, match=f"is quantized by {words} already"):
        load(full, folder, draft_quantize="int8")


def test_layers_that_the_kernel_cannot_take_are_named_at_load(full: Path, tmp_path: Path) -> None:
    folder = quantized(full, tmp_path / "narrow", four_bits(["lm_head"]))
    with pytest.raises(ModelError, match=r"is 96 by 32, bitsandbytes needs multiples of 32 by 64"):
        load(folder, full)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"quant_method": "mxfp4"}, "by mxfp4: its kernels run on GPUs"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "no method could be lossless"),
        ({"quant_method": "hqq"}, "by hqq: it was never tried"),
        ({"bits": 4}, "by an unknown method"),
        ("nonsense", "by an unknown method"),
    ],
)
def test_other_methods_are_refused_before_weights_are_loaded(
    full: Path, tmp_path: Path, config: Any, words: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(full, folder)
    change_json(folder, "config.json", quantization_config=config)
    with pytest.raises(ModelError, match=words) as caught:
        load(folder, full)
    assert "4 bits, AWQ, GPTQ, FP8 and compressed-tensors" in (caught.value.hint or "")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "find_spec", lambda name: None)
    for config in ({"quant_method": "torchao"}, {"load_in_4bit": True}):
        with pytest.raises(ModelError, match=r"the package (torchao|bitsandbytes) is missing"):
            check_stored({"quantization_config": config}, "it")
    check_stored({}, "it")
    assert stored_quantization({"quantization_config": None}) is None
