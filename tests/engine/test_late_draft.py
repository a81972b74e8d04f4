"""A draft that loses reads a prompt no earlier than a round drafts behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.engine.runs import Run
from tests.tiny import random_frames
from vidcap.engine import stats as clock_of
from vidcap.engine.policy import Policy
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.schedule import OpenedVideo
from vidcap.engine.stats import RoundCost, Stats
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.settings import SpeculationSettings, method_settings

QUESTION = "What moves?"
AUTO = method_settings("auto")
WAYS = {
    "one after the other": AUTO,
    "side by side": method_settings("auto", prefill="parallel"),
    "pruned": method_settings("auto", prune=0.9, prune_by="uv", prefill="parallel"),
    "with a branch": method_settings("auto", lookup_branch=4),
    "skipping": method_settings("auto", viskip=0.0),
}


@dataclass
class Losing(Policy):
    """Drafting has lost; it is tried again in the rounds of a list alone, two levels deep."""

    trials: tuple[int, ...] = ()
    asked: list[bool] = field(default_factory=list)
    least_chance = 0.0
    _lost: bool = True

    def worthy(self, chances: Sequence[float]) -> int:
        return len(chances)

    def drafts(self, *, ready: bool = True) -> bool:
        self.asked.append(ready)
        self.levels = 2
        return len(self.asked) in self.trials

    def expands(self, chances: object) -> bool:
        self.levels -= 1
        return self.levels > 0


@pytest.fixture(scope="module")
def models(tiny_target: Path, tiny_draft: Path) -> dict[str, Qwen25VL]:
    folders = {"target": tiny_target, "random": tiny_draft, "copy": tiny_target}
    cpu = torch.device("cpu")
    return {name: load_model(path, cpu, torch.float32) for name, path in folders.items()}


@pytest.fixture(scope="module")
def expected(models: dict[str, Qwen25VL]) -> dict[str, list[int]]:
    """What transformers' own decoding answers."""
    run = make_run(models, "random", Policy())
    return {question: run.transformers(question) for question in (QUESTION, "How many?")}


def make_run(models: dict[str, Qwen25VL], draft: str, policy: Policy) -> Run:
    inputs = models["target"].prepare(random_frames(6, 56, 112), fps=2.0)
    return Run(models["target"], models[draft], inputs, max_tokens=30, policy=policy)


@contextmanager
def calls_of(draft: Qwen25VL) -> Iterator[list[str]]:
    """Which parts of the draft ran, in order."""
    calls: list[str] = []
    model = draft.model.model
    handles = [
        part.register_forward_pre_hook(lambda *_, name=name: calls.append(name))
        for name, part in (("vision", model.visual), ("text", model.language_model.layers[0]))
    ]
    forward = draft.language.forward
    draft.language.forward = lambda *args: (calls.append("forward"), forward(*args))[1]
    try:
        yield calls
    finally:
        del draft.language.forward
        for handle in handles:
            handle.remove()


def answer(run: Run, method: SpeculationSettings) -> tuple[list[int], Stats]:
    """The way that a session goes."""
    stats = Stats()
    opened = OpenedVideo(*run.jobs(), method, stats, run.policy)
    generation = opened.start(run.request(QUESTION), stats)
    return [token for new in generation for token in new], stats


@pytest.mark.parametrize("method", WAYS.values(), ids=WAYS.keys())
def test_no_draft_runs_where_the_policy_does_not_draft(
    models: dict[str, Qwen25VL], expected: dict[str, list[int]], method: SpeculationSettings
) -> None:
    run = make_run(models, "random", Losing())
    with calls_of(models["random"]) as calls:
        tokens, stats = answer(run, method)
    assert calls == []
    assert tokens == expected[QUESTION]
    assert stats.draft_visual is None
    assert stats.seconds["draft_prefill"] == 0


@pytest.mark.parametrize("method", [AUTO, WAYS["side by side"], WAYS["pruned"]])
def test_a_draft_that_wins_reads_the_prompt_before_any_round(
    models: dict[str, Qwen25VL], expected: dict[str, list[int]], method: SpeculationSettings
) -> None:
    policy = Losing(_lost=False)
    run = make_run(models, "random", policy)
    with calls_of(models["random"]) as calls:
        tokens, stats = answer(run, method)
    assert calls[0] == "vision"
    assert "forward" in calls
    assert stats.draft_visual
    assert all(policy.asked)
    assert tokens == expected[QUESTION]


@pytest.mark.parametrize("first", [1, 2, 9])
@pytest.mark.parametrize("method", [AUTO, WAYS["side by side"]])
def test_a_draft_that_starts_late_is_in_step(
    models: dict[str, Qwen25VL],
    expected: dict[str, list[int]],
    first: int,
    method: SpeculationSettings,
) -> None:
    """A copy of the target is always right, so its drafts show what it has read."""
    policy = Losing(trials=(first, first + 1, first + 4))
    run = make_run(models, "copy", policy)
    tokens, stats = answer(run, method)
    assert tokens == expected[QUESTION]
    assert policy.asked.count(False) == first
    assert stats.histogram == {0: stats.rounds - 3, 2: 3}
    assert stats.draft_visual == run.inputs.visual_tokens


def test_a_late_start_is_prefill_and_nothing_else(
    models: dict[str, Qwen25VL], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the round's drafting nor decoding counts it, and the policy gets the bill."""
    now = [0.0]
    monkeypatch.setattr(clock_of, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    policy = Losing(trials=(1, 2, 3))
    run = make_run(models, "random", policy)
    visual = models["random"].model.model.visual
    handle = visual.register_forward_pre_hook(lambda *_: now.append(now.pop() + 100.0))
    _, stats = answer(run, AUTO)
    handle.remove()
    assert stats.seconds["draft_prefill"] == 100
    assert stats.seconds["decode"] == stats.seconds["draft"] == 0
    assert policy.costs.draft_s == 0
    assert policy._saved_s == -100


def test_a_second_question_reads_nothing_twice(
    models: dict[str, Qwen25VL], expected: dict[str, list[int]]
) -> None:
    policy = Losing(trials=(1, 40))
    run, stats = make_run(models, "random", policy), Stats()
    opened = OpenedVideo(*run.jobs(), AUTO, stats, policy)
    with calls_of(models["random"]) as calls:
        for question in (QUESTION, "How many?"):
            tokens = [new for part in opened.start(run.request(question), stats) for new in part]
            assert tokens == expected[question]
            stats = Stats()
            policy.asked = [True] * 35
    assert calls.count("vision") == 1


def test_a_video_may_be_opened_before_the_draft_loses(
    models: dict[str, Qwen25VL], expected: dict[str, list[int]]
) -> None:
    """Another answer in between decides."""
    policy, stats = Losing(_lost=False), Stats()
    run = make_run(models, "random", policy)
    opened = OpenedVideo(*run.jobs(), WAYS["side by side"], stats, policy)
    policy._lost = True
    with calls_of(models["random"]) as calls:
        tokens = [new for part in opened.start(run.request(QUESTION), stats) for new in part]
    assert calls == []
    assert tokens == expected[QUESTION]
    assert stats.seconds["target_prefill"] > 0


def test_a_seed_draws_the_same_whatever_was_learnt(models: dict[str, Qwen25VL]) -> None:
    texts = []
    for policy in (Policy(), Losing()):
        run = make_run(models, "random", policy)
        run.sampling = SamplingSettings(1.0, seed=3)
        texts.append(answer(run, AUTO)[0])
    assert texts[0] == texts[1]


def test_time_that_a_stage_leaves_out_is_not_its_last_time_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([0.0, 1.0, 2.0, 7.0, 8.0, 8.0, 11.0, 12.0])
    monkeypatch.setattr(clock_of, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    stats = Stats()
    with stats.timer("decode"):
        with stats.timer("draft"), stats.timer("draft_prefill", apart_from=("draft", "decode")):
            pass
        with stats.timer("verify"):
            pass
        stats.count_round(1, 0)
    assert stats.last_round == RoundCost(rows=2, draft_s=2.0, verify_s=3.0)
    assert stats.seconds == {"draft_prefill": 5.0, "draft": 2.0, "verify": 3.0, "decode": 7.0}
