"""Which device gets which layers, from sizes alone."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidcap.errors import UsageError
from vidcap.models import machine
from vidcap.models.facts import known_facts
from vidcap.models.machine import Device, find_devices, joined
from vidcap.models.memory import nominal_load, nominal_need
from vidcap.models.placement import Placement, Room, Shares, has_room, place, shares_of, spread
from vidcap.models.work import Form
from vidcap.settings import ModelSettings

BF16 = Form("bfloat16")
GIB = 1 << 30

shares = st.builds(
    Shares,
    layers=st.integers(1, 12),
    weights=st.integers(1, 50),
    keys_values=st.integers(0, 20),
    first=st.integers(0, 100),
    others=st.integers(0, 30),
)
free = st.integers(-20, 500)
rooms = st.lists(free, min_size=1, max_size=4).map(
    lambda sizes: [Room(f"cuda:{index}", size) for index, size in enumerate(sizes)]
)
spares = st.one_of(st.none(), st.integers(0, 400).map(lambda size: Room("cpu", size)))


def used(need: Shares, found: Placement, room: Room) -> int:
    """Bytes that a placement takes of a GPU, counted from its definition."""
    first = room.name == found.first
    count, left = found.layers.count(room.name), found.kept_elsewhere
    own = count * (need.weights + need.keys_values)
    if not first:
        return own + (need.others if count else 0)
    return own + need.first + left * need.keys_values + (need.weights if left else 0)


@given(shares, rooms, spares)
def test_every_layer_is_placed_in_order_and_nothing_overflows(
    need: Shares, devices: list[Room], spare: Room | None
) -> None:
    found = spread(need, devices, spare)
    if found is None:
        return
    assert len(found.layers) == need.layers
    order = [room.name for room in devices] + ([spare.name] if spare else [])
    runs = [name for name, _ in groupby(found.layers)]
    assert runs == [name for name in order if name in runs]
    assert found.first == devices[0].name
    for room in devices:
        assert used(need, found, room) <= max(room.free, 0)
    if spare is not None:
        assert found.kept_elsewhere * need.weights <= spare.free


@given(shares, rooms, spares)
def test_a_layer_is_kept_elsewhere_only_where_the_gpus_have_no_room_for_one_more(
    need: Shares, devices: list[Room], spare: Room | None
) -> None:
    """Also: nothing is refused that would go, by filling device after device."""
    each = need.weights + need.keys_values
    fewest = None
    for left in range(need.layers + 1 if spare else 1):
        visiting = left * need.keys_values + (need.weights if left else 0)
        begin = devices[0].free - need.first - visiting
        others = [room.free - need.others for room in devices[1:]]
        holds = begin // each + sum(max(0, size) // each for size in others)
        in_spare = spare is None or left * need.weights <= spare.free
        if begin >= 0 and holds >= need.layers - left and in_spare:
            fewest = left
            break
    found = spread(need, devices, spare)
    assert (found.kept_elsewhere if found else None) == fewest


@given(shares, rooms)
def test_about_the_same_stays_free_everywhere(need: Shares, devices: list[Room]) -> None:
    found = spread(need, devices)
    if found is None:
        return
    each = need.weights + need.keys_values
    left = {
        room.name: room.free - (need.first if room.name == found.first else need.others)
        for room in devices
    }
    for name in found.layers:
        left[name] -= each
    # A layer was never given to a device while another one had more than a layer more to spare.
    for name in set(found.layers):
        assert max(left.values()) <= left[name] + each


def gpu(index: int, gib: float) -> Device:
    return Device(f"cuda:{index}", "GPU", int(gib * GIB), bf16=True)


MEMORY = Device("cpu", "CPU", 256 * GIB, bf16=False)
TARGET = known_facts("Qwen/Qwen2.5-VL-32B-Instruct")
DRAFT = known_facts("Qwen/Qwen2.5-VL-7B-Instruct")
AUTO = ModelSettings()


def test_auto_takes_one_gpu_where_it_is_enough() -> None:
    devices = [gpu(0, 48), gpu(1, 141), MEMORY]
    assert place(AUTO, TARGET, DRAFT, devices) == Placement("cuda:1")
    assert has_room(AUTO, TARGET, DRAFT, devices)


def test_auto_spreads_a_larger_pair_over_all_gpus() -> None:
    devices = [*(gpu(index, 48) for index in range(3)), MEMORY]
    found = place(AUTO, TARGET, DRAFT, devices)
    assert found.devices == ("cuda:0", "cuda:1", "cuda:2")
    # The first one has embedding, vision tower and draft.
    counts = [found.layers.count(name) for name in found.devices]
    assert counts[0] < counts[1]
    assert abs(counts[1] - counts[2]) <= 1
    assert (sum(counts), found.kept_elsewhere, found.warnings) == (64, 0, ())
    assert has_room(AUTO, TARGET, DRAFT, devices)


def test_what_the_gpus_do_not_hold_stays_in_main_memory_with_a_warning() -> None:
    devices = [gpu(0, 80), MEMORY]
    found = place(AUTO, TARGET, DRAFT, devices)
    assert found.devices == ("cuda:0", "cpu")
    assert 0 < found.kept_elsewhere < 20
    (warning,) = found.warnings
    assert warning.startswith(f"{found.kept_elsewhere} of the target's 64 layers have no room")
    assert "slow" in warning
    assert not has_room(AUTO, TARGET, DRAFT, devices)
    assert place(AUTO, TARGET, DRAFT, [gpu(0, 80), gpu(1, 8)]) is None
    small = Device("cpu", "CPU", 4 * GIB, bf16=False)
    assert place(AUTO, TARGET, DRAFT, [gpu(0, 80), small]) is None


def test_named_gpus_are_all_used() -> None:
    named = ModelSettings(device="cuda:0,cuda:1")
    small = known_facts("Qwen/Qwen2.5-VL-3B-Instruct")
    found = place(named, small, None, [gpu(0, 80), gpu(1, 80)])
    assert set(found.layers) == {"cuda:0", "cuda:1"}
    assert found.layers == tuple(sorted(found.layers))


def test_a_draft_with_a_device_of_its_own_takes_room_there() -> None:
    devices = [gpu(0, 80), gpu(1, 80), MEMORY]
    beside = place(AUTO, TARGET, DRAFT, devices, draft_device=devices[1])
    alone = place(AUTO, TARGET, None, devices)
    assert alone == Placement("cuda:0")
    assert beside == Placement("cuda:0")
    named = ModelSettings(device="cuda:0,cuda:1")
    with_draft = place(named, TARGET, DRAFT, devices[:2], draft_device=devices[1])
    without = place(named, TARGET, None, devices[:2])
    assert with_draft.layers.count("cuda:1") < without.layers.count("cuda:1")
    tight = gpu(2, 8)
    assert not has_room(AUTO, TARGET, DRAFT, devices, tight)
    assert has_room(AUTO, TARGET, DRAFT, devices, gpu(2, 40))


@pytest.mark.parametrize("draft", [None, DRAFT])
def test_the_shares_add_up_to_no_less_than_the_pair_needs(draft: object) -> None:
    for form in (BF16, Form("bfloat16", quantize="int8")):
        need = shares_of(TARGET, draft, nominal_load(TARGET), form)
        total = need.first + need.layers * (need.weights + need.keys_values)
        # Weights are counted as they are loaded, so packed ones count in full.
        slack = TARGET.layer_parameters if form.quantize == "int8" else 2 * GIB
        assert nominal_need(TARGET, draft, form) <= total
        assert total <= nominal_need(TARGET, draft, form) + slack + 2 * GIB


def test_devices_are_named_in_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [gpu(0, 24), gpu(1, 24)]
    monkeypatch.setattr(machine, "cuda_devices", lambda: gpus)
    assert [device.name for device in find_devices("auto")] == ["cuda:0", "cuda:1", "cpu"]
    assert [device.name for device in find_devices("cuda:1,cuda:0")] == ["cuda:1", "cuda:0"]
    assert [device.name for device in find_devices("cuda,cpu")] == ["cuda:0", "cpu"]
    for wrong in ("cuda:0,cuda", "cpu,cuda:0", "cuda:0,cpu,cpu"):
        with pytest.raises(UsageError, match="names each GPU once"):
            find_devices(wrong)
    with pytest.raises(UsageError, match="'mps' is not supported"):
        find_devices("cuda:0,mps")
    monkeypatch.setattr(machine, "cuda_devices", list)
    assert [device.name for device in find_devices("auto")] == ["cpu"]


def test_devices_of_one_model_count_as_one() -> None:
    both = joined([gpu(0, 24), gpu(1, 24)])
    assert both == Device("cuda:0,cuda:1", "2 x GPU", 48 * GIB, bf16=True)
    assert joined([MEMORY]) is MEMORY
    assert joined([MEMORY, Device("cuda:0", "GPU", None, bf16=True)]).memory_bytes is None
