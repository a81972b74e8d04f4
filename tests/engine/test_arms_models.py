"""Drafts of real models that take turns: no token changes, and an idle one costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import pytest
import torch

from tests.engine.runs import PLAIN, Run
from tests.tiny import random_frames
from vidcap.engine.draft import Arm
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.stats import Stats
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.settings import method_settings

QUESTION = "What moves?"
ALL = ("full", "pruned", "text", "lookup")


@pytest.fixture(scope="module")
def models(tiny_target: Path, tiny_perturbed: Path) -> dict[str, Qwen25VL]:
    cpu = torch.device("cpu")
    return {
        "target": load_model(tiny_target, cpu, torch.float32),
        "copy": load_model(tiny_target, cpu, torch.float32),
        "perturbed": load_model(tiny_perturbed, cpu, torch.float32),
    }


def make_run(models: dict[str, Qwen25VL], draft: str = "perturbed", **parts: object) -> Run:
    inputs = models["target"].prepare(random_frames(8, 56, 112), fps=2.0)
    return Run(models["target"], models[draft], inputs, **parts)


def turns(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the arms take turns in this order instead of by merit."""
    order = cycle(names)

    def choose(arms: Sequence[Arm], key: object) -> Arm:
        name = next(order)
        return next(arm for arm in arms if arm.name == name)

    monkeypatch.setattr("vidcap.engine.draft.arms.max", choose, raising=False)


@pytest.mark.parametrize("name", ["sd", "sd-tree", "dynamic", "branch"])
def test_arms_give_the_tokens_of_generate(
    models: dict[str, Qwen25VL], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    parts: dict[str, object] = {"dynamic": {"tree": "dynamic"}, "branch": {"lookup_branch": 4}}
    method = method_settings(
        name if name in ("sd", "sd-tree") else "sd",
        arms=ALL,
        prune=0.7,
        prune_by="uniform",
        **parts.get(name, {}),
    )
    for draft, penalty in (("perturbed", 1.0), ("copy", 1.2)):
        run = make_run(models, draft, penalty=penalty, max_tokens=24)
        expected = run.transformers(QUESTION)
        assert run.ask(QUESTION, method)[0] == expected
        with monkeypatch.context() as patch:
            turns(patch, "text", "full", "pruned", "text", "lookup", "full")
            tokens, stats = run.ask(QUESTION, method)
        assert tokens == expected
        assert {"text", "full"} <= set(stats.arm_rounds)


def test_arms_keep_in_step_over_each_others_turns(
    models: dict[str, Qwen25VL], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the target on the whole video is always right, whoever drafted in between."""
    turns(monkeypatch, "text", "full", "pruned", "full")
    run = make_run(models, "copy", max_tokens=60)
    method = method_settings("sd", arms=("full", "pruned", "text"), prune=0.9, prune_by="uv")
    prompt = run.prefill(method)
    generation = run.start(QUESTION, prompt)
    lengths = [len(tokens) for tokens in generation]
    assert all(length == 6 for length in lengths[2:-1:2])
    assert generation.stats.draft_visual == run.inputs.visual_tokens


def test_idle_arms_cost_no_prefill_and_no_vision(
    models: dict[str, Qwen25VL], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models["copy"].model.model
    calls: list[str] = []
    handles = [
        model.visual.register_forward_pre_hook(lambda *_: calls.append("vision")),
        model.language_model.register_forward_pre_hook(
            lambda module, args, kwargs: calls.append("prefill") if "vidcap" in kwargs else None,
            with_kwargs=True,
        ),
    ]
    method = method_settings("sd", arms=("text", "full"))
    run, stats = make_run(models, "copy", max_tokens=30), Stats()
    with monkeypatch.context() as patch:
        turns(patch, "text")
        prompt = run.prefill(method)
        list(run.start(QUESTION, prompt))
        assert calls == ["prefill"]
        turns(patch, "text", "full")
        list(run.start(QUESTION, prompt, stats))
        list(run.start("How many?", prompt))
    for handle in handles:
        handle.remove()
    # Both prefills are kept: each happens once for all questions.
    assert calls == ["prefill", "vision", "prefill"]
    assert stats.seconds["draft_prefill"] > 0
    assert 0 < stats.seconds["draft"] < stats.seconds["decode"]


def test_a_seed_repeats_what_arms_sample(models: dict[str, Qwen25VL]) -> None:
    run = make_run(models, max_tokens=20, sampling=SamplingSettings(1.0, seed=3))
    method = method_settings("sd", arms=ALL, prune=0.5)
    texts = [run.ask(QUESTION, method)[0] for _ in range(2)]
    assert texts[0] == texts[1]
    run.sampling = SamplingSettings(1.0, seed=4)
    assert run.ask(QUESTION, method)[0] != texts[0]


def test_arms_beside_the_target_start_with_the_first(models: dict[str, Qwen25VL]) -> None:
    run = make_run(models, "copy", max_tokens=20)
    for arms in (("text", "full"), ("lookup", "pruned"), ("pruned", "text")):
        method = method_settings("parallelvlm", arms=arms)
        tokens, stats = run.ask(QUESTION, method)
        assert tokens == run.ask(QUESTION, PLAIN)[0]
        assert sum(stats.arm_rounds.values()) == stats.rounds
