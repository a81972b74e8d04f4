"""Every schedule on a pair that shares its vision tower: one run of it, the same tokens."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
import torch

from tests.engine.runs import PLAIN, Run
from tests.models.families import TARGET
from tests.models.towers import blocks_run, load_pair, write_pair
from tests.tiny import random_frames
from vidcap.engine.policy import Policy
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.schedule import InlineLane, OpenedVideo, PrefillJob, ThreadLane
from vidcap.engine.stats import Stats
from vidcap.models.loading import LoadedPair
from vidcap.models.shared_tower import SharedTower
from vidcap.settings import METHODS, SpeculationSettings, method_settings
from vidcap.trace import Trace

QUESTIONS = ("What moves?", "How many circles are there?", "What moves?")
BESIDE = {"prefill": "parallel"}
WAYS: dict[str, SpeculationSettings] = {
    "chain": method_settings("sd"),
    "chain beside": method_settings("sd", **BESIDE),
    "tree in pieces": method_settings("sd-tree", prefill_chunk=10),
    "pruned": METHODS["specvlm"],
    "pruned beside": METHODS["parallelvlm"],
    "pruned by attention beside": method_settings("specvlm", **BESIDE),
    "arms": method_settings("sd", arms=("full", "pruned", "text"), prune=0.8),
    "arms beside": method_settings("sd", arms=("text", "full"), **BESIDE),
    "auto": METHODS["auto"],
    "auto beside": method_settings("auto", **BESIDE),
    "loose": METHODS["lvspec"],
}


@dataclass
class SharedRun(Run):
    """Its models share their tower."""

    tower: SharedTower | None = None

    def jobs(self) -> list[PrefillJob]:
        video = self.tower.open(self.inputs, self.positions)
        return [
            PrefillJob(self.target.language, video.target),
            PrefillJob(self.draft.language, video.draft, follows=True),
        ]


@dataclass
class Late(Policy):
    """Drafting has lost, and is tried again from one round on."""

    first: int = 1000
    asked: int = 0
    _lost: bool = field(default=True)

    def drafts(self, *, ready: bool = True) -> bool:
        self.asked += 1
        return self.asked >= self.first


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> LoadedPair:
    folder = write_pair(tmp_path_factory.mktemp("pair"), "qwen2_5_vl", TARGET)
    return load_pair(folder, dtype="float32")


def make_run(pair: LoadedPair, kind: type[Run] = SharedRun, **parts: Any) -> Run:
    inputs = pair.target.prepare(random_frames(6, 56, 112), fps=2.0)
    if kind is SharedRun:
        parts["tower"] = pair.tower
    return kind(pair.target, pair.draft, inputs, **{"max_tokens": 16, **parts})


def answers(run: Run, method: SpeculationSettings) -> tuple[list[list[int]], list[Stats]]:
    """The way that a session goes, with several questions."""
    every = [Stats() for _ in QUESTIONS]
    opened = OpenedVideo(*run.jobs(), method, every[0], run.policy)
    found = []
    for question, stats in zip(QUESTIONS, every, strict=True):
        generation = opened.start(run.request(question), stats)
        found.append([token for new in generation for token in new])
    return found, every


@pytest.fixture(scope="module")
def expected(pair: LoadedPair) -> list[list[int]]:
    """What transformers' own decoding answers."""
    run = make_run(pair, Run)
    return [run.transformers(question) for question in QUESTIONS]


@pytest.mark.parametrize("name", WAYS)
def test_one_run_of_the_tower_serves_both_models(
    pair: LoadedPair, expected: list[list[int]], name: str
) -> None:
    method = WAYS[name]
    with blocks_run(pair) as calls:
        found, _ = answers(make_run(pair), method)
    assert len(calls) == 1
    if method.verify == "strict":
        assert found == expected
    else:
        assert found == answers(make_run(pair, Run), method)[0]


@pytest.mark.parametrize("name", ["chain", "tree in pieces", "pruned", "arms"])
def test_the_same_is_drafted_as_behind_a_tower_of_its_own(pair: LoadedPair, name: str) -> None:
    seen = []
    for kind in (SharedRun, Run):
        _, every = answers(make_run(pair, kind), WAYS[name])
        seen.append(
            [(stats.accepted, dict(stats.histogram), stats.draft_visual) for stats in every]
        )
    assert seen[0] == seen[1]
    assert sum(accepted for accepted, *_ in seen[0]) > 0


@pytest.mark.parametrize("name", ["chain", "chain beside", "pruned beside"])
def test_samples_are_those_behind_a_tower_of_its_own(pair: LoadedPair, name: str) -> None:
    drawn = [
        answers(make_run(pair, kind, sampling=SamplingSettings(1.0, seed=3)), WAYS[name])[0]
        for kind in (SharedRun, Run)
    ]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("name", ["auto", "auto beside"])
@pytest.mark.parametrize("first", [3, 1000])
def test_a_draft_may_start_late_or_never(
    pair: LoadedPair, expected: list[list[int]], name: str, first: int
) -> None:
    run = make_run(pair, policy=Late(first=first))
    with blocks_run(pair) as calls:
        found, every = answers(run, WAYS[name])
    assert len(calls) == 1
    assert found == expected
    assert (every[0].drafted > 0) == (first < 1000)


@pytest.mark.parametrize("lane", [InlineLane, partial(ThreadLane, [torch.device("cpu")])])
def test_beside_the_target_the_draft_waits_for_its_tower(
    pair: LoadedPair, expected: list[list[int]], lane: Any
) -> None:
    run, stats = make_run(pair, make_lane=lane), Stats(trace=Trace())
    _, generation = run.start_parallel(QUESTIONS[0], WAYS["chain beside"], stats)
    assert [token for new in generation for token in new] == expected[0]
    events = {event["name"]: event for event in stats.trace.chrome()["traceEvents"]}
    first, second = events["target vision"], events["draft vision"]
    assert first["ts"] + first["dur"] <= second["ts"]


def test_a_draft_that_sees_nothing_of_the_video_leaves_the_states_alone(
    pair: LoadedPair, expected: list[list[int]]
) -> None:
    with blocks_run(pair) as calls:
        found, _ = answers(make_run(pair), replace(WAYS["chain"], prune=1.0))
    assert found == expected
    assert len(calls) == 1


def test_plain_decoding_of_such_a_target_is_as_ever(
    pair: LoadedPair, expected: list[list[int]]
) -> None:
    assert answers(make_run(pair, Run), PLAIN)[0] == expected
