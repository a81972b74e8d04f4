"""The draft's lane: its order, and one budget of threads for both sides."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.engine.runs import Run
from tests.tiny import random_frames
from vidcap.engine.schedule import InlineLane, ThreadLane, ThreadPace, open_lane
from vidcap.models.loading import load_model
from vidcap.settings import METHODS

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def run(tiny_target: Path, tiny_draft: Path) -> Run:
    models = [load_model(folder, CPU, torch.float32) for folder in (tiny_target, tiny_draft)]
    inputs = models[0].prepare(random_frames(8, 56, 112), fps=2.0)
    return Run(*models, inputs, max_tokens=4, make_lane=lambda: open_lane(CPU, CPU))


class Threads:
    """Stands for torch's own setting, which is one per thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int):
        self._own = threading.local()
        self._default = count
        self.seen: dict[str, set[int]] = {}
        monkeypatch.setattr(torch, "get_num_threads", self.get)
        monkeypatch.setattr(torch, "set_num_threads", self.set)

    def get(self) -> int:
        return getattr(self._own, "count", self._default)

    def set(self, count: int) -> None:
        self._own.count = count
        self.seen.setdefault(threading.current_thread().name, set()).add(count)


@pytest.mark.parametrize(("total", "lane"), [(2, 1), (4, 1), (16, 4)])
def test_both_sides_stay_within_the_threads(
    run: Run, monkeypatch: pytest.MonkeyPatch, total: int, lane: int
) -> None:
    threads = Threads(monkeypatch, total)
    run.ask("What moves?", METHODS["parallelvlm"])
    caller = threads.seen[threading.current_thread().name]
    assert caller <= {total, total - lane}
    assert total - lane in caller
    assert threads.seen["draft"] <= {lane, total}
    assert lane in threads.seen["draft"]
    assert torch.get_num_threads() == total


def test_a_side_that_is_alone_gets_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, name = Threads(monkeypatch, 8), threading.current_thread().name
    work = threading.Event()
    lane = ThreadLane([CPU], ThreadPace(8))
    future = lane.submit(lambda: work.wait(5) and [lane.on_layer(0), torch.get_num_threads()][1])
    lane.on_layer(0)
    assert threads.get() == 6
    threading.Timer(0.1, work.set).start()
    assert lane.result(future) == 8
    assert threads.get() == 8
    assert threads.seen[name] == {6, 8}
    lane.close()


def test_without_threads_to_share_the_draft_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    Threads(monkeypatch, 1)
    lane = open_lane(CPU, CPU)
    assert isinstance(lane, InlineLane)
    order: list[int] = []
    futures = [lane.submit(partial(order.append, number)) for number in range(2)]
    assert not order
    lane.result(futures[1])
    assert order == [0, 1]
    assert not lane.is_ahead()
    assert lane.overlap_s == 0
