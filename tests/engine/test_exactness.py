"""Every strict method gives the tokens of transformers' greedy ``generate``, in float32."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch

from tests.engine.runs import PLAIN, Run
from tests.tiny import random_frames
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.settings import METHODS, PositionPolicy, SpeculationSettings, method_settings

QUESTION = "What moves?"
STRICT = {name: method for name, method in METHODS.items() if method.verify == "strict"}
CLIPS = {"one frame": (1, 112, 112), "short": (6, 112, 140), "long": (24, 56, 112)}
TREES = {
    "chain1": method_settings("sd", draft_tokens=1),
    "chain": method_settings("sd"),
    "static": method_settings("sd-tree"),
    "dynamic": method_settings("sd", tree="dynamic"),
    "narrow": method_settings("sd", tree="dynamic", tree_nodes=7, tree_depth=6, tree_width=2),
    "entropy": method_settings("sd", tree="entropy", entropy_sure=0.3, entropy_unsure=0.5),
    "deep": method_settings("sd", tree="entropy", entropy_sure=1.0),
    "wide": method_settings("sd", tree="entropy", entropy_sure=0.0, entropy_unsure=0.0),
    "branch": method_settings("sd", lookup_branch=6),
    "auto branch": method_settings("auto", lookup_branch=6),
    "large": method_settings("sd", tree="dynamic", tree_nodes=90, tree_depth=8, tree_width=12),
}
#: Drafts per round that a copy of the target gets accepted by trees of fixed depth.
DEPTHS = {"chain1": 1, "chain": 5, "static": 5, "deep": 10, "wide": 3}
DEPTHS_OF = {TREES[name]: depth for name, depth in DEPTHS.items()}
PRUNINGS = [
    {"prune": 0.9, "prune_by": "attention"},
    {"prune": 0.5, "prune_by": "attention", "prune_select": "stratified"},
    {"prune": 0.9, "prune_by": "attention", "kept_positions": "compact"},
    {"prune": 0.9, "prune_by": "uv"},
    {"prune": 0.8, "prune_by": "uv", "prune_select": "top", "uv_layer": 2},
    {"prune": 0.7, "prune_by": "uniform", "kept_positions": "compact"},
    {"prune": 0.7, "prune_by": "random"},
    {"prune": 1.0},
]


@pytest.fixture(scope="module")
def models(tiny_target: Path, tiny_draft: Path, tiny_perturbed: Path) -> dict[str, Qwen25VL]:
    folders = {
        "target": tiny_target,
        "random": tiny_draft,
        "perturbed": tiny_perturbed,
        "copy": tiny_target,
    }
    cpu = torch.device("cpu")
    return {name: load_model(path, cpu, torch.float32) for name, path in folders.items()}


def make_run(models: dict[str, Qwen25VL], draft: str = "perturbed", **parts: object) -> Run:
    clip = parts.pop("clip", CLIPS["short"])
    inputs = models["target"].prepare(random_frames(*clip, seed=clip[0]), fps=2.0)
    return Run(models["target"], models[draft], inputs, **parts)


@pytest.mark.parametrize("positions", ["reference", "transformers"])
@pytest.mark.parametrize("clip", CLIPS.values(), ids=CLIPS.keys())
def test_every_preset_equals_generate(
    models: dict[str, Qwen25VL], clip: tuple[int, int, int], positions: PositionPolicy
) -> None:
    for draft in ("random", "perturbed", "copy"):
        run = make_run(models, draft, clip=clip, positions=positions)
        for question in (QUESTION, "Describe the red circle."):
            expected = run.transformers(question)
            for method in STRICT.values():
                assert run.ask(question, method)[0] == expected, (draft, question, method)


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
def test_every_tree_equals_generate(models: dict[str, Qwen25VL], tree: SpeculationSettings) -> None:
    for draft, penalty in product(("random", "perturbed", "copy"), (1.0, 1.2)):
        run = make_run(models, draft, penalty=penalty)
        tokens, stats = run.ask(QUESTION, tree)
        assert tokens == run.transformers(QUESTION), (draft, penalty)
        if draft == "copy" and tree in DEPTHS_OF:
            full = max(stats.histogram)
            assert full == DEPTHS_OF[tree]
            assert sum(stats.histogram.values()) - stats.histogram[full] <= 1  # the last round


@pytest.mark.parametrize("pruning", PRUNINGS, ids=lambda parts: "-".join(map(str, parts.values())))
def test_every_pruning_equals_generate(
    models: dict[str, Qwen25VL], pruning: dict[str, object]
) -> None:
    run = make_run(models, "copy", clip=CLIPS["long"])
    expected = run.transformers(QUESTION)
    total = run.inputs.visual_tokens
    for name in ("sd", "sd-tree"):
        tokens, stats = run.ask(QUESTION, method_settings(name, **pruning))
        assert tokens == expected
        assert stats.draft_visual == round(total * (1 - pruning["prune"]) - 0.499)
    own = [part for part in pruning if part != "kept_positions"]
    parts = {part: pruning[part] for part in own}
    assert run.ask(QUESTION, method_settings("self", **parts))[0] == expected


def test_pruning_nothing_changes_no_draft(models: dict[str, Qwen25VL]) -> None:
    run = make_run(models, "perturbed", max_tokens=61)
    full = run.ask(QUESTION, method_settings("sd"))[1]
    same = run.ask(QUESTION, method_settings("self", prune=0.0))[1]
    assert same.draft_acceptance_rate == 1.0
    assert 0 < full.draft_acceptance_rate < 1.0


def test_acceptance_follows_the_quality_of_the_draft(models: dict[str, Qwen25VL]) -> None:
    """The exactness tests would be empty if no draft were ever accepted, or none rejected."""
    rates = {}
    for draft in ("random", "perturbed", "copy"):
        run = make_run(models, draft, max_tokens=61)
        rates[draft] = run.ask(QUESTION, method_settings("sd"))[1].draft_acceptance_rate
    assert rates["copy"] == 1.0
    assert rates["random"] < rates["perturbed"] < 1.0
    assert rates["perturbed"] > 0.1


@pytest.mark.parametrize("penalty", [1.05, 1.2])
def test_repetition_penalty_follows_every_path(models: dict[str, Qwen25VL], penalty: float) -> None:
    for draft in ("perturbed", "copy"):
        run = make_run(models, draft, penalty=penalty)
        expected = run.transformers(QUESTION)
        for method in STRICT.values():
            assert run.ask(QUESTION, method)[0] == expected
    assert make_run(models).ask(QUESTION, PLAIN)[0] != expected


@pytest.mark.parametrize("index", [0, 1, 3, 8, 17])
def test_stop_tokens_in_the_middle_of_an_accepted_path(
    models: dict[str, Qwen25VL], index: int
) -> None:
    run = make_run(models, "copy", max_tokens=20)
    free, _ = run.ask(QUESTION, PLAIN)
    end = run.target.tokenizer.convert_tokens_to_ids("<|im_end|>")
    run.stop_ids = frozenset({free[index], end})
    expected = run.transformers(QUESTION)
    for method in (*STRICT.values(), *TREES.values()):
        tokens, _ = run.ask(QUESTION, method)
        assert tokens == expected
        assert tokens == free[: free.index(tokens[-1]) + 1]


@pytest.mark.parametrize("name", ["sd-tree", "specvlm", "self"])
def test_questions_share_one_vision_call_per_model(models: dict[str, Qwen25VL], name: str) -> None:
    run = make_run(models, "random")
    calls = {"target": 0, "random": 0}

    def count(model: str) -> None:
        calls[model] += 1

    handles = [
        models[model].model.model.visual.register_forward_pre_hook(
            lambda *args, model=model: count(model)
        )
        for model in calls
    ]
    method = method_settings(name)
    prompt = run.prefill(method)
    questions = (QUESTION, "How many circles are there?", QUESTION)
    answers = [run.ask(question, method, prompt)[0] for question in questions]
    for handle in handles:
        handle.remove()
    assert calls == {"target": 1, "random": int(method.draft == "pair")}
    assert answers[0] == answers[2]
    assert answers == [run.ask(question, PLAIN)[0] for question in questions]


def test_a_blind_draft_needs_no_vision_tower(models: dict[str, Qwen25VL]) -> None:
    run = make_run(models, "random")
    visual = models["random"].model.model.visual
    calls: list[int] = []
    handle = visual.register_forward_pre_hook(lambda *args: calls.append(1))
    tokens, stats = run.ask(QUESTION, method_settings("sd", prune=1.0))
    handle.remove()
    assert not calls
    assert stats.draft_visual == 0
    assert tokens == run.ask(QUESTION, PLAIN)[0]
