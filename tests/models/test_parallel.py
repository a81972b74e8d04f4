"""What tensor parallelism needs, and what each rank holds, from sizes alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.models.families import write_family
from vidcap.errors import ModelError, UsageError
from vidcap.models import parallel
from vidcap.models.devices import target_placement
from vidcap.models.facts import ModelFacts, known_facts, read_facts
from vidcap.models.machine import Device
from vidcap.models.memory import nominal_load, pair_memory
from vidcap.models.pair import find_pair
from vidcap.models.parallel import check_divisible, check_parallel, devices_of, divides
from vidcap.models.placement import has_room
from vidcap.models.work import LARGEST_PACKED_BYTES, Form, Work
from vidcap.plan import Planner
from vidcap.settings import ModelSettings, VideoSettings, method_settings

GIB = 1 << 30


def facts_of(name: str) -> ModelFacts:
    found = known_facts(name)
    assert found is not None
    return found


LARGE, SMALL = facts_of("Qwen/Qwen2.5-VL-72B-Instruct"), facts_of("Qwen/Qwen2.5-VL-7B-Instruct")


def gpus(count: int, memory_bytes: int = 80 * GIB) -> list[Device]:
    return [Device(f"cuda:{index}", "GPU", memory_bytes, True) for index in range(count)]


def settings_for(count: int, **parts: object) -> ModelSettings:
    return replace(ModelSettings(tensor_parallel=count), **parts)


def test_ranks_get_a_gpu_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "cuda_devices", lambda: gpus(4))
    names = [device.name for device in devices_of(settings_for(2))]
    assert names == ["cuda:0", "cuda:1"]
    with pytest.raises(ModelError, match="--tensor-parallel 8: this machine has 4 GPUs"):
        devices_of(settings_for(8))
    assert [device.name for device in devices_of(settings_for(2, device="cpu"))] == ["cpu"]


def test_without_gpus_ranks_share_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "cuda_devices", list)
    assert [device.name for device in devices_of(settings_for(2))] == ["cpu"]


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("cuda:0", "--tensor-parallel 2 needs 2 GPUs, --device cuda:0 names 1"),
        ("cuda:0,cpu", "--tensor-parallel leaves no layers in main memory"),
    ],
)
def test_other_devices_are_refused(
    monkeypatch: pytest.MonkeyPatch, device: str, words: str
) -> None:
    from vidcap.models import machine

    monkeypatch.setattr(machine, "cuda_devices", lambda: gpus(2))
    with pytest.raises(UsageError, match=words):
        devices_of(settings_for(2, device=device))


def test_what_contradicts_ranks_is_refused() -> None:
    check_parallel(settings_for(2), {})
    check_parallel(settings_for(1, quantize="int8"), {"TORCHELASTIC_RUN_ID": "1"})
    with pytest.raises(UsageError, match="contradict each other"):
        check_parallel(settings_for(2, quantize="int8"), {})
    with pytest.raises(UsageError, match="starts its processes itself"):
        check_parallel(settings_for(2), {"TORCHELASTIC_RUN_ID": "1"})


def test_heads_and_rows_have_to_come_out_even() -> None:
    assert [count for count in range(1, 9) if divides(LARGE, count)] == [1, 2, 4, 8]
    check_divisible(SMALL, 4, "7B")
    with pytest.raises(ModelError, match="7B has 28 heads, 4 of keys and values") as error:
        check_divisible(SMALL, 8, "7B")
    assert error.value.hint == "possible: 2, 4"
    with pytest.raises(ModelError, match="which 2 does not divide") as error:
        check_divisible(replace(SMALL, kv_heads=1), 2, "one")
    assert error.value.hint == "this model cannot be cut"
    quantized = replace(SMALL, quantization="torchao")
    check_divisible(quantized, 1, "packed")
    with pytest.raises(ModelError, match="packed is quantized by torchao"):
        check_divisible(quantized, 2, "packed")


def test_a_target_fits_ranks_that_hold_their_parts() -> None:
    """144 GB of weights, of which embedding, output and vision tower are in one place."""
    for count, fits in ((2, False), (4, True), (8, True)):
        assert has_room(settings_for(count), LARGE, SMALL, gpus(count)) is fits
    assert not has_room(settings_for(4), LARGE, SMALL, gpus(4, 40 * GIB))
    # The first has more to hold: a draft of 15 GB that lies elsewhere makes the difference.
    both = gpus(1, 50 * GIB) + gpus(4, 50 * GIB)[1:]
    assert not has_room(settings_for(4), LARGE, SMALL, both)
    other = Device("cuda:4", "GPU", 80 * GIB, True)
    assert has_room(settings_for(4), LARGE, SMALL, both, other)
    assert not has_room(settings_for(3), LARGE, None, gpus(3))


def test_the_estimate_counts_what_every_rank_has() -> None:
    load, alone = nominal_load(SMALL), Form("bfloat16")
    one = pair_memory(SMALL, None, load, alone)
    two = pair_memory(SMALL, None, load, replace(alone, ranks=2))
    assert two.target == one.target
    assert two.process == 2 * one.process
    assert two.working > one.working
    first = Work(SMALL, load.prompt_tokens, load, alone, "none")
    half = replace(first, form=replace(alone, ranks=2))
    rest = SMALL.parameters * 2 - SMALL.layer_parameters * 2
    assert half.prefill < first.prefill
    assert half.of_other_ranks == max(half.prefill, rest - first.kept.keys_values // 2)


def test_each_rank_packs_its_own_part_on_a_cpu() -> None:
    """Layers that are too large to be packed by one process, and not by four."""
    facts = facts_of("Qwen/Qwen2.5-VL-3B-Instruct")
    load, form = nominal_load(facts), Form("bfloat16", on_cpu=True)
    layers = facts.layer_parameters * 2
    assert LARGEST_PACKED_BYTES < layers < 4 * LARGEST_PACKED_BYTES
    whole = Work(facts, 100, load, form, "none").kept.copies
    assert Work(facts, 100, load, replace(form, ranks=4), "none").kept.copies == whole + layers


def test_plan_and_placement_agree_on_what_cannot_run(tmp_path: Path) -> None:
    folder = write_family(tmp_path / "target", "qwen2_5_vl")
    settings = settings_for(2, pair=str(folder), device="cpu", use_draft=False)
    folders = find_pair(settings, needs_draft=False)
    assert target_placement(folders, settings).ranks == ("cpu", "cpu")
    assert divides(read_facts(folder), 2)

    def plan(settings: ModelSettings) -> Planner:
        video, method = VideoSettings(), method_settings("plain")
        return Planner(settings, video, method, prompt="", max_tokens=8)

    assert plan(settings).device.name == "cpu"
    with pytest.raises(UsageError, match="contradict"):
        plan(replace(settings, quantize="int8"))
    three = replace(settings, tensor_parallel=3)
    with pytest.raises(ModelError, match="which 3 does not divide"):
        plan(three)
    with pytest.raises(ModelError, match="which 3 does not divide"):
        target_placement(folders, three)
