"""Drafts that take turns: whose turn it is, and what each of them hears of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.engine.fakes import VOCAB, FakeDrafter, FakeTarget, greedy
from vidcap.engine.draft import Arm, ArmsDrafter, Drafter, Lookup, LookupDrafter, Proposal
from vidcap.engine.draft.arms import HitRate, hits
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.loop import Generation, Limits
from vidcap.engine.stats import Stats
from vidcap.engine.tree import STATIC_TREE, TreeShape
from vidcap.engine.verify import Accepted, StrictGreedy
from vidcap.errors import UsageError
from vidcap.parts import parse_part, part_values
from vidcap.settings import method_settings

PROMPT = (3, 1, 4, 1, 5)
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
