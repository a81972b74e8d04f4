"""Sizes of models and memory of pairs, without weights."""

from __future__ import annotations

import ctypes
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from vidcap.errors import ModelError, UsageError
from vidcap.models import machine
from vidcap.models.facts import known_facts, pair_tables, read_facts
from vidcap.models.loading import load_model
from vidcap.models.machine import Device, find_device
from vidcap.models.memory import (
    PairMemory,
    dtype_name,
    fits,
    pair_memory,
)
from vidcap.models.released import native_bf16
from vidcap.models.released_configs import released_config
from vidcap.models.tower import TowerFacts
from vidcap.models.work import LARGEST_PACKED_BYTES, TREE_ROWS, Form, Load

BF16 = Form("bfloat16")


def check_tower(tower: TowerFacts, model: Any) -> None:
    """The tower's widths are those of the released module's layers."""
    root = model.model.visual if hasattr(model.model, "visual") else model.model.vision_tower
    shapes = {name: weight.shape for name, weight in root.named_parameters() if ".0." in name}
    inner = {
        shape[0]
        for name, shape in shapes.items()
        if name.endswith(("fc1.weight", "up_proj.weight", "linear_fc1.weight"))
        and "merger" not in name
    }
    assert inner == {tower.inner}
    assert {shape[0] for name, shape in shapes.items() if "norm1.weight" in name} == {tower.width}
    deep = getattr(model.config.vision_config, "deepstack_visual_indexes", ())
    assert tower.deep_layers == len(deep)


@pytest.mark.parametrize("name", pair_tables()["models"])
def test_known_sizes_are_those_of_the_released_architecture(name: str) -> None:
    from transformers import AutoModelForImageTextToText

    entry = pair_tables()["models"][name]
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(released_config(name))
    model.tie_weights()
    parameters = sum(weight.numel() for weight in model.parameters())
    assert parameters == entry["parameters"]
    assert entry["weight_bytes"] == 2 * parameters
    text = model.model.language_model
    facts = known_facts(name)
    assert facts.family == model.config.model_type
    assert (facts.layers, facts.hidden) == (
        len(text.layers),
        text.layers[0].input_layernorm.weight.numel(),
    )
    keys = text.layers[0].self_attn.k_proj.weight.shape[0]
    assert facts.kv_heads * facts.head_dim == keys
    assert facts.vocabulary == text.embed_tokens.weight.shape[0]
    matrices = [weight for weight in text.layers.parameters() if weight.dim() > 1]
    assert facts.layer_parameters == sum(weight.numel() for weight in matrices)
    assert facts.head_parameters == model.lm_head.weight.numel()
    check_tower(facts.tower, model)
    memory = pair_memory(facts, None, Load(24_576, 0, 256), BF16)
    assert memory.target.weights == 2 * parameters
    per_row = 2 * 2 * len(text.layers) * keys
    assert memory.target.keys_values == (24_576 + 256 + TREE_ROWS) * per_row


@pytest.mark.parametrize("name", ["Qwen2-VL-72B", "Qwen2-VL-7B", "llava-onevision-qwen2-7b-ov-hf"])
def test_models_of_32768_positions_get_no_more_visual_tokens(name: str) -> None:
    full = next(item for item in pair_tables()["models"] if name in item)
    facts = known_facts(full)
    size = facts.geometry.frame_size(64, 2160, 3840)
    assert facts.geometry.visual_tokens(64, *size) < facts.context == 32768


def test_facts_of_a_folder_are_those_of_the_loaded_model(tiny_target: Path) -> None:
    facts = read_facts(tiny_target)
    model = load_model(tiny_target, torch.device("cpu"), torch.float32)
    spec = model.language.kv_spec
    assert (facts.layers, facts.kv_heads, facts.head_dim) == (
        spec.layers,
        spec.kv_heads,
        spec.head_dim,
    )
    assert facts.parameters == sum(weight.numel() for weight in model.model.parameters())
    assert facts.context == model.rules.max_positions
    ids = model.tokenizer.convert_tokens_to_ids(list(facts.stop_tokens))
    assert set(ids) == model.rules.stop_ids
    assert facts.weight_bytes == (tiny_target / "model.safetensors").stat().st_size
    assert facts.family == "qwen2_5_vl"


def test_only_models_of_presets_are_known_without_files() -> None:
    assert known_facts("someone/model") is None
    facts = known_facts("Qwen/Qwen2.5-VL-7B-Instruct")
    assert facts.stop_tokens == ("<|im_end|>", "<|endoftext|>")
    assert facts.geometry.frame_size(4, 1080, 1920) == (560, 1008)


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"\x05\0\0\0\0\0\0\0nope!"])
def test_damaged_weights_are_told(tiny_target: Path, tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_target, folder)
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged"):
        read_facts(folder)


@pytest.mark.parametrize("values", [{"hidden_size": None}, {"num_attention_heads": 0}])
def test_a_broken_configuration_is_told(
    tiny_target: Path, tmp_path: Path, values: dict[str, Any]
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_target, folder)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"] = config.get("text_config", {}) | values
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="is broken"):
        read_facts(folder)


def test_a_stop_token_without_a_name_is_a_number(tiny_target: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_target, folder)
    (folder / "generation_config.json").write_text('{"eos_token_id": 123456}')
    assert read_facts(folder).stop_tokens == ("#123456",)
    (folder / "generation_config.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    for table in (config, config.get("text_config", {})):
        table.pop("eos_token_id", None)
    (folder / "config.json").write_text(json.dumps(config))
    named = json.loads((folder / "tokenizer_config.json").read_text())["eos_token"]
    assert read_facts(folder).stop_tokens == (named,)


def known_pair(load: Load, form: Form = BF16, *, drafts: bool = True) -> PairMemory:
    target = known_facts("Qwen/Qwen2.5-VL-7B-Instruct")
    draft = known_facts("Qwen/Qwen2.5-VL-3B-Instruct") if drafts else None
    return pair_memory(target, draft, load, form)


def test_memory_is_weights_and_rows_of_keys_and_values() -> None:
    memory = known_pair(Load(1000, 200, max_tokens=50))
    # 28 layers of 4 heads of 128 keys and as many values, 36 layers of 2 heads; two bytes each.
    assert memory.target.weights == 16_584_333_312
    assert memory.target.keys_values == (1050 + TREE_ROWS) * 28 * 4 * 128 * 2 * 2
    assert memory.draft.keys_values == (250 + TREE_ROWS) * 36 * 2 * 128 * 2 * 2
    beside = memory.working + memory.process
    assert memory.total == memory.target.total + memory.draft.total + beside
    full = known_pair(Load(1000, 200, max_tokens=50), Form("float32"), drafts=False)
    assert full.target.total == 2 * memory.target.total
    assert full.draft is None


def test_a_target_that_drafts_for_itself_has_its_weights_once() -> None:
    target = known_facts("Qwen/Qwen2.5-VL-7B-Instruct")
    memory = pair_memory(target, None, Load(1000, 100, 50), BF16, shares=True)
    assert memory.draft.weights == 0
    assert 0 < memory.draft.keys_values < memory.target.keys_values


def test_more_and_larger_frames_need_more() -> None:
    assert known_pair(Load(0, 0, 1)).working == 0
    few = known_pair(Load(1000, 1000, 1, pixels=1_000_000))
    larger = known_pair(Load(1000, 1000, 1, pixels=100_000_000))
    # The prefill of so many tokens outweighs the vision tower.
    longer = known_pair(Load(100_000, 1000, 1, pixels=1_000_000))
    assert 0 < few.working < larger.working
    assert longer.working > few.working
    frames = known_pair(Load(1000, 1000, 1, pixels=100_000_000), Form("bfloat16", on_cpu=True))
    assert frames.working > larger.working


def test_what_is_small_enough_is_kept_twice_on_a_cpu() -> None:
    load, cpu = Load(1000, 1000, 1), Form("bfloat16", on_cpu=True)
    facts = known_facts("llava-hf/llava-onevision-qwen2-0.5b-ov-hf")
    small = pair_memory(facts, None, load, cpu).target
    # 24 layers of 14 and 2 heads of 64, three matrices of 896 x 4864; 152,000 rows of output.
    layers = 24 * (896 * 64 * (2 * 14 + 2 * 2) + 3 * 896 * 4864)
    assert small.copies == 2 * (layers + 152_000 * 896)
    large = known_pair(load, cpu).target
    assert large.copies == 2 * 152_064 * 3584 < LARGEST_PACKED_BYTES
    for form in (BF16, Form("float16", on_cpu=True), Form("bfloat16", True, quantize="int8")):
        assert pair_memory(facts, None, load, form).target.copies == 0


def test_quantized_weights_are_smaller_and_loaded_in_full_first() -> None:
    load = Load(0, 0, 1)
    full, packed = known_pair(load), known_pair(load, Form("bfloat16", quantize="int8"))
    target = known_facts("Qwen/Qwen2.5-VL-7B-Instruct")
    assert full.target.weights - packed.target.weights == target.layer_parameters
    assert packed.draft.weights == full.draft.weights
    alone = known_pair(load, Form("bfloat16", quantize="int4"), drafts=False)
    assert alone.target.weights < packed.target.weights
    assert alone.target.total + alone.working == full.target.weights


def test_the_system_keeps_a_share_of_a_device() -> None:
    device = Device("cpu", "", 1000, bf16=False)
    assert fits(950, device)
    assert not fits(951, device)
    assert fits(10**15, Device("cpu", "", None, bf16=False))


def test_number_formats_follow_the_device() -> None:
    assert dtype_name("auto", Device("cpu", "", None, bf16=True)) == "bfloat16"
    assert dtype_name("auto", Device("cpu", "", None, bf16=False)) == "float32"
    assert dtype_name("float16", Device("cpu", "", None, bf16=False)) == "float16"
    with pytest.raises(UsageError, match="int3"):
        dtype_name("int3", Device("cpu", "", None, bf16=False))


def test_the_processor_is_the_one_that_torch_sees() -> None:
    cpu = find_device("cpu")
    assert cpu.bf16 == native_bf16(torch.device("cpu"))
    assert cpu.memory_bytes > 100_000_000
    assert cpu.label


def test_a_container_gets_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "_CGROUP_LIMITS", (limit,))
    installed = machine.cpu().memory_bytes
    limit.write_text("123456789\n")
    assert machine.cpu().memory_bytes == 123_456_789
    limit.write_text("max\n")
    assert machine.cpu().memory_bytes == installed


class FakeDriver:
    """Two GPUs behind the functions of the CUDA driver that are asked."""

    broken = 0

    def cuInit(self, flags: int) -> int:  # noqa: N802 (the driver's own name)
        return self.broken

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = 2
        return 0

    def cuDeviceGet(self, handle: Any, index: int) -> int:  # noqa: N802
        handle._obj.value = index
        return 0

    def cuDeviceGetName(self, label: Any, size: int, handle: Any) -> int:  # noqa: N802
        label.value = f"GPU {handle.value}".encode()
        return 0

    def cuDeviceTotalMem_v2(self, total: Any, handle: Any) -> int:  # noqa: N802
        total._obj.value = (handle.value + 1) * 10**10
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, handle: Any) -> int:  # noqa: N802
        value._obj.value = 9 - 2 * handle.value
        return 0


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = FakeDriver()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    monkeypatch.setattr(machine.metadata, "version", lambda name: "2.9.0")
    return driver


def test_gpus_are_found_through_the_driver(gpus: FakeDriver) -> None:
    assert find_device("auto") == Device("cuda:0", "GPU 0", 10**10, bf16=True)
    assert find_device("cuda:1") == Device("cuda:1", "GPU 1", 2 * 10**10, bf16=False)
    assert find_device("cuda").name == "cuda:0"
    with pytest.raises(ModelError, match="no such CUDA device"):
        find_device("cuda:2")
    with pytest.raises(UsageError, match="'mps' is not supported"):
        find_device("mps")


def test_gpus_do_not_count_where_torch_cannot_use_them(
    gpus: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.metadata, "version", lambda name: "2.9.0+cpu")
    assert find_device("auto").name == "cpu"
    monkeypatch.setattr(machine.metadata, "version", lambda name: "2.9.0")
    gpus.broken = 100
    assert find_device("auto").name == "cpu"
    monkeypatch.setattr(ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError(name)))
    assert find_device("auto").name == "cpu"
