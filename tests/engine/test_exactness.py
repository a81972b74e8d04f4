"""Every strict method gives the tokens of transformers' greedy ``generate``, in float32."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.tiny import random_frames, transformers_greedy
from vidcap.engine.logits import LogitsSettings
from vidcap.engine.loop import Limits
from vidcap.engine.request import Request, start
from vidcap.engine.schedule import PrefilledPrompt, PrefillJob, sequential_prefill
from vidcap.engine.stats import Stats
from vidcap.models.loading import load_model
from vidcap.models.protocol import VideoInputs
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.settings import PositionPolicy, SpeculationSettings, method_settings

METHODS = {
    "plain": method_settings("plain"),
    "chain1": method_settings("sd", draft_tokens=1),
    "chain5": method_settings("sd"),
    "static": method_settings("sd-tree"),
}
CLIPS = {"one frame": (1, 112, 112), "short": (6, 112, 140), "long": (24, 56, 112)}


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


def prefill(
    target: Qwen25VL, draft: Qwen25VL, inputs: VideoInputs, positions: PositionPolicy
) -> PrefilledPrompt:
    jobs = [
        PrefillJob(model.language, lambda model=model: model.encode(inputs, positions))
        for model in (target, draft)
    ]
    return sequential_prefill(jobs[0], jobs[1], Stats())


def decode(
    target: Qwen25VL,
    prompt: PrefilledPrompt,
    question: str,
    method: SpeculationSettings,
    *,
    max_tokens: int = 40,
    stop_ids: frozenset[int] = frozenset(),
    penalty: float = 1.0,
) -> tuple[list[int], Stats]:
    rules = target.rules
    request = Request(
        suffix_ids=target.suffix_ids(question),
        limits=Limits(max_tokens, stop_ids),
        logits=LogitsSettings(rules.vocab_size, rules.placeholder_ids, penalty),
        speculation=method,
    )
    stats = Stats()
    tokens = [token for new in start(prompt, request, stats) for token in new]
    return tokens, stats


@pytest.mark.parametrize("positions", ["reference", "transformers"])
@pytest.mark.parametrize("clip", CLIPS.values(), ids=CLIPS.keys())
def test_all_methods_equal_generate(
    models: dict[str, Qwen25VL], clip: tuple[int, int, int], positions: PositionPolicy
) -> None:
    target = models["target"]
    inputs = target.prepare(random_frames(*clip, seed=clip[0]), fps=2.0)
    for name in ("random", "perturbed", "copy"):
        prompt = prefill(target, models[name], inputs, positions)
        for question in ("What moves?", "Describe the red circle."):
            suffix = target.suffix_ids(question)
            expected = transformers_greedy(
                target, inputs, prompt.target.prefix, suffix, max_tokens=40
            )
            for method in METHODS.values():
                tokens, _ = decode(target, prompt, question, method)
                assert tokens == expected, (name, question, method)


def test_drafts_of_a_copy_are_accepted_and_of_a_perturbed_one_in_part(
    models: dict[str, Qwen25VL],
) -> None:
    """The exactness test would be empty if no draft were ever accepted, or none ever rejected."""
    target = models["target"]
    inputs = target.prepare(random_frames(6), fps=2.0)
    rates = {}
    for name in ("random", "perturbed", "copy"):
        prompt = prefill(target, models[name], inputs, "reference")
        _, stats = decode(target, prompt, "What moves?", METHODS["chain5"], max_tokens=61)
        rates[name] = stats.draft_acceptance_rate
    assert rates["copy"] == 1.0
    assert rates["random"] < rates["perturbed"] < 1.0
    assert rates["perturbed"] > 0.1


@pytest.mark.parametrize("penalty", [1.05, 1.2])
def test_repetition_penalty_follows_every_path(models: dict[str, Qwen25VL], penalty: float) -> None:
    target = models["target"]
    inputs = target.prepare(random_frames(6), fps=2.0)
    for name in ("perturbed", "copy"):
        prompt = prefill(target, models[name], inputs, "reference")
        suffix = target.suffix_ids("What moves?")
        reference = transformers_greedy(
            target,
            inputs,
            prompt.target.prefix,
            suffix,
            max_tokens=40,
            repetition_penalty=penalty,
        )
        for method in METHODS.values():
            tokens, _ = decode(target, prompt, "What moves?", method, penalty=penalty)
            assert tokens == reference
    plain, _ = decode(target, prompt, "What moves?", METHODS["plain"])
    assert plain != reference


@pytest.mark.parametrize("index", [0, 1, 3, 8, 17])
def test_stop_tokens_in_the_middle_of_an_accepted_path(
    models: dict[str, Qwen25VL], index: int
) -> None:
    target = models["target"]
    inputs = target.prepare(random_frames(6), fps=2.0)
    prompt = prefill(target, models["copy"], inputs, "reference")
    free, _ = decode(target, prompt, "What moves?", METHODS["plain"], max_tokens=20)
    stop = frozenset({free[index], target.tokenizer.convert_tokens_to_ids("<|im_end|>")})
    expected = transformers_greedy(
        target,
        inputs,
        prompt.target.prefix,
        target.suffix_ids("What moves?"),
        max_tokens=20,
        stop_ids=stop,
    )
    for method in METHODS.values():
        tokens, _ = decode(target, prompt, "What moves?", method, max_tokens=20, stop_ids=stop)
        assert tokens == expected
        assert tokens == free[: free.index(tokens[-1]) + 1]


def test_two_questions_share_one_vision_call_per_model(
    models: dict[str, Qwen25VL], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = models["target"], models["random"]
    calls = {"target": 0, "random": 0}
    for name in calls:
        visual = models[name].model.model.visual

        def count(*args: object, name: str = name) -> None:
            calls[name] += 1

        handle = visual.register_forward_pre_hook(count)
        monkeypatch.setattr(visual, "_test_handle", handle, raising=False)
    inputs = target.prepare(random_frames(6), fps=2.0)
    prompt = prefill(target, draft, inputs, "reference")
    answers = {}
    for question in ("What moves?", "How many circles are there?", "What moves?"):
        answers.setdefault(question, []).append(
            decode(target, prompt, question, METHODS["static"])[0]
        )
    assert calls == {"target": 1, "random": 1}
    assert answers["What moves?"][0] == answers["What moves?"][1]
    for question, given in answers.items():
        fresh = prefill(target, draft, inputs, "reference")
        assert decode(target, fresh, question, METHODS["plain"])[0] == given[0]
    for name in calls:
        models[name].model.model.visual._test_handle.remove()
