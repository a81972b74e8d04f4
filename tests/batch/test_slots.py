"""How many workers a cluster gets."""

from __future__ import annotations

import pytest

from vidcap.batch.slots import Slots, find_slots, worker_need
from vidcap.errors import ModelError
from vidcap.settings import ModelSettings

GB = 10**9
SMALL = {"CPU": 2.0, "memory": 16.0 * GB}
LARGE = {"CPU": 64.0, "memory": 256.0 * GB}
GPUS = {"CPU": 32.0, "GPU": 4.0, "memory": 500.0 * GB}


@pytest.mark.parametrize(
    ("machines", "device", "threads", "need", "expected"),
    [
        ([SMALL], "auto", None, 0, Slots(2, 1, 0)),
        ([SMALL], "auto", 2, 0, Slots(1, 2, 0)),
        ([SMALL, LARGE], "cpu", None, 0, Slots(66, 1, 0)),
        ([LARGE], "auto", 8, 0, Slots(8, 8, 0)),
        # Memory, not cores, is what is short.
        ([LARGE], "auto", None, 30 * GB, Slots(8, 1, 0, 30 * GB)),
        ([SMALL, LARGE], "auto", None, 30 * GB, Slots(8, 1, 0, 30 * GB)),
        ([GPUS], "auto", None, 30 * GB, Slots(4, 8, 1)),
        ([GPUS, SMALL], "auto", None, 0, Slots(4, 8, 1)),
        ([GPUS, {"CPU": 4.0, "GPU": 2.0}], "cuda", None, 0, Slots(6, 2, 1)),
        ([GPUS], "auto", 16, 0, Slots(2, 16, 1)),
        ([GPUS], "cpu", 16, 0, Slots(2, 16, 0)),
    ],
)
def test_one_worker_per_gpu_or_cpu_slot(machines, device, threads, need, expected):
    assert find_slots(machines, device, threads, need) == expected


@pytest.mark.parametrize(
    ("machines", "device", "threads", "need", "hint"),
    [
        ([SMALL], "cuda", None, 0, "each needs 1 CPU and a GPU"),
        ([SMALL], "cpu", 3, 0, "each needs 3 CPUs"),
        ([SMALL], "cpu", None, 24 * GB, "each needs 1 CPU and 24.0 GB of memory"),
        ([], "auto", None, 0, "each needs 1 CPU"),
    ],
)
def test_no_room_is_said_with_what_is_wanted(machines, device, threads, need, hint):
    with pytest.raises(ModelError, match="no machine of the Ray cluster has room") as caught:
        find_slots(machines, device, threads, need)
    assert caught.value.hint == hint


def test_the_need_of_a_pair_follows_from_its_sizes():
    large = worker_need(ModelSettings(pair="qwen2.5-vl-7b", dtype="bfloat16"), needs_draft=True)
    alone = worker_need(ModelSettings(pair="qwen2.5-vl-7b", dtype="bfloat16"), needs_draft=False)
    assert 24 * GB < large < 40 * GB
    assert 15 * GB < alone < large
    assert worker_need(ModelSettings(pair="demo"), needs_draft=True) < 3 * GB
    assert worker_need(ModelSettings(), needs_draft=True) == 0
