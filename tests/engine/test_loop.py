"""The loop against the one-token path, with a fake pair: for every tree and every kind of draft."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.fakes import VOCAB, FakeDrafter, FakeTarget, greedy
from vidcap.engine.draft import Drafter, NoDraft
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.loop import Generation, Limits
from vidcap.engine.stats import Stats
from vidcap.engine.tree import STATIC_TREE, TreeShape
from vidcap.engine.verify import StrictGreedy

PROMPT = (3, 1, 4, 1, 5)
SHAPES = {
    "chain1": TreeShape.chain(1),
    "chain5": TreeShape.chain(5),
    "static": STATIC_TREE,
    "bush": TreeShape.from_paths([(0,), (1,), (2,), (1, 0), (2, 0), (2, 1), (2, 1, 0)]),
}


def make(drafter: Drafter, max_tokens: int, stop_ids: frozenset[int] = frozenset()) -> Generation:
    stack = LogitsStack(LogitsSettings(VOCAB), torch.tensor([PROMPT]))
    limits = Limits(max_tokens, stop_ids)
    return Generation(FakeTarget(PROMPT), lambda: drafter, StrictGreedy(), stack, limits, Stats())


def run(generation: Generation) -> list[int]:
    return [token for tokens in generation for token in tokens]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("quality", [1.0, 0.5, 0.0])
def test_every_tree_and_quality_gives_greedy_tokens(shape: TreeShape, quality: float) -> None:
    generation = make(FakeDrafter(PROMPT, shape, quality), max_tokens=40)
    assert run(generation) == greedy(PROMPT, 40)
    assert generation.finish_reason == "length"


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_an_adversarial_draft_changes_nothing_but_the_speed(shape: TreeShape) -> None:
    generation = make(FakeDrafter(PROMPT, shape, mode="adversarial"), max_tokens=30)
    assert run(generation) == greedy(PROMPT, 30)
    assert generation.stats.accepted == 0
    assert generation.stats.rounds == 29


def test_a_perfect_chain_is_accepted_whole() -> None:
    generation = make(FakeDrafter(PROMPT, TreeShape.chain(4)), max_tokens=21)
    assert run(generation) == greedy(PROMPT, 21)
    assert generation.stats.rounds == 4
    assert dict(generation.stats.histogram) == {4: 4}
    assert generation.stats.mean_accepted_drafts == 4
    assert generation.stats.mean_acceptance_length == 5
    assert generation.stats.draft_acceptance_rate == 1


def test_plain_decoding_is_a_tree_of_one_node() -> None:
    generation = make(NoDraft(), max_tokens=12)
    assert run(generation) == greedy(PROMPT, 12)
    assert generation.stats.rounds == 11
    assert generation.stats.drafted == 0
    assert generation.stats.draft_acceptance_rate is None


@settings(max_examples=60, deadline=None)
@given(
    stop_at=st.integers(0, 24),
    max_tokens=st.integers(1, 25),
    quality=st.sampled_from([0.0, 0.6, 1.0]),
    name=st.sampled_from(sorted(SHAPES)),
)
def test_stops_where_plain_decoding_stops(
    stop_at: int, max_tokens: int, quality: float, name: str
) -> None:
    stop = greedy(PROMPT, 25)[stop_at]
    plain = make(NoDraft(), max_tokens, frozenset({stop}))
    drafted = make(FakeDrafter(PROMPT, SHAPES[name], quality), max_tokens, frozenset({stop}))
    expected = run(plain)
    assert run(drafted) == expected
    assert drafted.finish_reason == plain.finish_reason
    assert drafted.stats.generated == len(expected) <= max_tokens
    assert stop not in expected[:-1]
    assert plain.finish_reason == ("stop" if expected[-1] == stop else "length")


def test_accepted_drafts_behind_a_cut_are_not_counted() -> None:
    generation = make(FakeDrafter(PROMPT, TreeShape.chain(5)), max_tokens=3)
    run(generation)
    assert generation.stats.accepted == 2
    assert generation.stats.generated == 3


def test_interruption_keeps_what_was_accepted() -> None:
    asked = iter([False, False, True])
    generation = make(FakeDrafter(PROMPT, TreeShape.chain(2)), max_tokens=50)
    generation.should_stop = lambda: next(asked)
    tokens = run(generation)
    assert generation.finish_reason == "interrupted"
    assert tokens == greedy(PROMPT, len(tokens))
    assert len(tokens) == 7
