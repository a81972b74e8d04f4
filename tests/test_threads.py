from __future__ import annotations

import os

import pytest

from vidcap.threads import ThreadShares, available_threads, can_share, share_threads


@pytest.mark.parametrize("total", range(1, 65))
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("on_cpu", [False, True])
def test_what_runs_at_once_never_exceeds_the_cores(total, ahead, on_cpu):
    shares = share_threads(total, ahead=ahead, on_cpu=on_cpu)
    assert shares.models >= 1
    assert shares.models + shares.decoder == total
    assert bool(shares.decoder) is (ahead and can_share(total))


def test_the_models_give_up_little():
    assert share_threads(3, ahead=True, on_cpu=True) == ThreadShares(3, 0)
    assert share_threads(4, ahead=True, on_cpu=True) == ThreadShares(3, 1)
    assert share_threads(16, ahead=True, on_cpu=True) == ThreadShares(15, 1)
    assert share_threads(16, ahead=True, on_cpu=False) == ThreadShares(8, 8)


def test_what_was_asked_for_counts_else_the_cores_of_this_process(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert available_threads(3) == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 5}, raising=False)
    assert available_threads() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_threads() == 1


@pytest.mark.parametrize(("value", "threads"), [("3", 3), (" 2,4", 2), ("0", 5), ("x", 5), ("", 5)])
def test_the_number_that_torch_itself_goes_by_counts(monkeypatch, value, threads):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(5)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert available_threads() == threads
    assert available_threads(7) == 7
