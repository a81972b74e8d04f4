"""Drafts that take turns: whose turn it is, what an idle one costs, and that no token changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, product
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.engine.fakes import VOCAB, FakeDrafter, FakeTarget, greedy
from tests.engine.runs import PLAIN, Run
from tests.tiny import random_frames
from vidcap.engine.draft import Arm, ArmsDrafter, Drafter, Lookup, LookupDrafter, Proposal
from vidcap.engine.draft.arms import HitRate, hits
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.loop import Generation, Limits
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.stats import Stats
from vidcap.engine.tree import STATIC_TREE, TreeShape
from vidcap.engine.verify import Accepted, StrictGreedy
from vidcap.errors import UsageError
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.parts import parse_part, part_values
from vidcap.settings import method_settings

PROMPT = (3, 1, 4, 1, 5)
QUESTION = "What moves?"
ALL = ("full", "pruned", "text", "lookup")
CHAIN = TreeShape.chain(4)


@dataclass
class Follower(FakeDrafter):
    """A fake drafter that also hears of rounds which others drafted."""

    heard: list[int] = field(default_factory=list)

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        self.history += [*root[0].tolist(), *accepted.tokens[:-1]]
        self.heard += accepted.tokens


class Arms:
    """Arms of fake drafters that know the truth to a different degree."""

    def __init__(self, shape: TreeShape = CHAIN, **quality: float):
        self.made: dict[str, Follower] = {}
        depth = max(shape.depths())
        self.stats = Stats()
        self.drafter = ArmsDrafter(
            [
                Arm(name, partial(self.make, name, shape, share), depth)
                for name, share in quality.items()
            ],
            self.stats,
        )

    def make(self, name: str, shape: TreeShape, quality: float) -> Drafter:
        self.made[name] = Follower(PROMPT, shape, quality)
        return self.made[name]

    def run(self, count: int) -> list[int]:
        stack = LogitsStack(LogitsSettings(VOCAB), torch.tensor([PROMPT]))
        generation = Generation(
            FakeTarget(PROMPT),
            lambda: self.drafter,
            StrictGreedy(),
            stack,
            Limits(count),
            self.stats,
        )
        return [token for tokens in generation for token in tokens]


@pytest.mark.parametrize("shape", [TreeShape.chain(1), TreeShape.chain(4), STATIC_TREE])
def test_whoever_drafts_the_tokens_are_the_targets(shape: TreeShape) -> None:
    for first, second in product((0.0, 0.6, 1.0), repeat=2):
        arms = Arms(shape, one=first, two=second)
        assert arms.run(60) == greedy(PROMPT, 60)


def test_an_arm_that_is_never_needed_is_never_made() -> None:
    arms = Arms(right=1.0, idle=1.0)
    arms.run(60)
    assert set(arms.made) == {"right"}
    assert dict(arms.stats.arm_rounds) == {"right": arms.stats.rounds}


def test_the_better_arm_gets_most_turns_and_a_worse_one_another_chance() -> None:
    arms = Arms(poor=0.3, good=0.7)
    arms.run(200)
    turns = arms.stats.arm_rounds
    assert turns["good"] > 3 * turns["poor"]
    assert turns["poor"] > 1


def test_a_late_arm_knows_all_that_was_written_before_it() -> None:
    arms = Arms(wrong=0.0, late=1.0)
    arms.run(40)
    late = arms.made["late"]
    assert len(late.history) >= 38
    assert late.history == greedy(PROMPT, 60)[: len(late.history)]
    # It drafts from the truth, so a history that lacked a token would have cost acceptance.
    assert arms.stats.accepted >= 4 * (arms.stats.arm_rounds["late"] - 1)


def test_rounds_that_were_left_out_reach_every_arm() -> None:
    arms = Arms(wrong=0.0, late=1.0)
    arms.drafter.skip(torch.tensor([[7]]), Accepted((0,), (8,)))
    proposal = arms.drafter.propose(torch.tensor([[8]]))
    arms.drafter.commit(proposal, Accepted((0,), (9,)))
    arms.drafter.skip(torch.tensor([[9]]), Accepted((0,), (10,)))
    assert arms.made["wrong"].history == [7, 8, 9]
    arms.drafter.propose(torch.tensor([[10]]))
    assert arms.made["late"].history == [7, 8, 9]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40), st.integers(1, 10))
def test_expected_hits_are_bounded_and_grow_with_right_drafts(
    rounds: Sequence[tuple[int, bool]], length: int
) -> None:
    rate, better = HitRate(), HitRate()
    for right, missed in rounds:
        rate.fade()
        better.fade()
        rate.observe(right, missed)
        better.observe(right + 1, missed)
    assert 0 < rate.expected(length) <= length
    assert rate.expected(length) <= rate.expected(length + 1)
    assert better.expected(length) >= rate.expected(length)
    assert rate.expected(0) == 0


def test_lookup_is_watched_without_having_the_turn() -> None:
    """Text that repeats itself: the free arm takes over once it has been right often enough."""
    text = [11, 12, 13, 14, 15, 16]
    lookup = Arm("lookup", lambda: LookupDrafter(Lookup([*text, 1], {99}), 4), 4, free=True)
    wrong = Arm("wrong", lambda: Follower(PROMPT, TreeShape.chain(4), mode="adversarial"), 4)
    drafter, written = ArmsDrafter([wrong, lookup], Stats()), [*text, *text, *text]
    chosen: list[list[int]] = []
    for place in range(len(written) - 1):
        proposal = drafter.propose(torch.tensor([[written[place]]]))
        chosen.append(proposal.tree.tokens[0, 1:].tolist())
        drafter.commit(proposal, Accepted((0,), (written[place + 1],)))
    assert chosen[2] == [14, 15, 16, 1]
    assert sum(tokens[:1] == [written[at + 1]] for at, tokens in enumerate(chosen)) > 12


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


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"arms": ("full",)}, "two or more"),
        ({"arms": ("full", "full")}, "two or more"),
        ({"arms": ("full", "pruned")}, "between 0 and 1"),
        ({"arms": ("full", "text"), "tree": "auto"}, "tree of their own"),
        ({"arms": ("full", "text"), "prune": 0.5}, "prune makes no difference"),
    ],
)
def test_arms_that_make_no_sense_are_refused(parts: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        method_settings("sd", **parts)


def test_arms_are_typed_with_plus_signs() -> None:
    assert parse_part("arms", "full+text") == ("full", "text")
    assert part_values("arms") == "full+pruned+text+lookup, two or more of them"
    with pytest.raises(UsageError, match="not 'half'"):
        parse_part("arms", "full+half")
    with pytest.raises(UsageError, match="no difference to method 'lookup'"):
        method_settings("lookup", arms=("full", "text"))


def test_a_proposal_counts_as_far_as_the_target_wrote_it() -> None:
    tree = TreeShape.from_paths([(0,), (1,), (1, 0)]).with_tokens(torch.tensor([[1, 5, 6, 7]]))
    for tokens, expected in (
        ((6, 7, 9), (2, False)),
        ((6, 9), (1, True)),
        ((9,), (0, True)),
        ((5, 2), (1, False)),
        ((6,), (1, False)),
    ):
        assert hits(Proposal(tree), Accepted((0,), tokens)) == expected
