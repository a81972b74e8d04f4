"""What the policy chooses, on costs and acceptance that are known."""

from __future__ import annotations

import functools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidcap.engine.policy import CostTable, Policy, RankTable, best_tree, expected_drafts
from vidcap.engine.tree import ROOT_ONLY, STATIC_TREE, TreeShape


def simulate(
    policy: Policy,
    tokens: int,
    shares: list[float],
    draft_s: float,
    verify_s: float,
    per_row: float,
) -> float:
    """Seconds of a run in which ranks fall by `shares`, as the loop and a drafter would report."""
    rng, spent, done = random.Random(0), 0.0, 0
    while done < tokens:
        shape = policy.choose()
        calls = max(shape.depths())
        spent += calls * draft_s + verify_s + per_row * (shape.size - 1)
        # The first call of all is slow, as it is on every machine.
        slow = 10 if not done else 1
        policy.costs.observe_verify(shape.size, slow * verify_s + per_row * (shape.size - 1))
        policy.costs.observe_draft(calls, calls * draft_s)
        node, ranks = 0, []
        while True:
            children = {
                shape.ranks[child]: child
                for child, parent in enumerate(shape.parents)
                if parent == node
            }
            if not children:
                break
            rank = rng.choices([*range(len(shares)), None], [*shares, 1 - sum(shares)])[0]
            ranks.append(rank)
            if rank not in children:
                break
            node = children[rank]
        done += 1 + shape.depths()[node]
        policy.observe(ranks)
    return spent


@pytest.mark.parametrize("shares", [[0.0, 0.0], [0.02, 0.01], [0.1, 0.05, 0.02]])
def test_a_useless_draft_costs_little(shares: list[float]) -> None:
    """An adversarial draft included: a few per cent over plain decoding, in the long run."""
    plain = 400 * 18.0
    assert simulate(Policy(), 400, shares, 3.6, 18.0, 0.2) < 1.05 * plain


@pytest.mark.parametrize(
    ("shares", "least"), [([0.95, 0.03], 2.5), ([0.8, 0.1, 0.03], 1.6), ([0.6, 0.15, 0.1], 1.2)]
)
def test_a_good_draft_is_used(shares: list[float], least: float) -> None:
    assert 400 * 18.0 / simulate(Policy(), 400, shares, 3.6, 18.0, 0.2) > least


def test_what_was_learnt_stays_for_the_next_answer() -> None:
    policy = Policy()
    first = simulate(policy, 128, [0.0, 0.0], 3.6, 18.0, 0.2)
    second = simulate(policy, 128, [0.0, 0.0], 3.6, 18.0, 0.2)
    assert second < first
    assert second < 1.02 * 128 * 18.0


def test_a_draft_as_slow_as_the_target_is_not_used() -> None:
    plain, policy = 400 * 18.0, Policy()
    assert policy.verdict is None
    assert simulate(policy, 400, [0.7, 0.1], 18.0, 18.0, 0.2) < 1.05 * plain
    assert policy.verdict == "drafting does not pay by measured cost and acceptance"


def brute_force_best(shares: list[float], size: int, depth: int) -> float:
    """The most accepted drafts of any tree, by dynamic programming over size and depth."""

    @functools.cache
    def forest(size: int, depth: int, rank: int) -> float:
        """Best value of a root's children from `rank` on, with `size` nodes to give."""
        if size == 0 or depth == 0 or rank == len(shares):
            return 0.0
        best = 0.0
        for below in range(size):
            value = shares[rank] * (1 + forest(below, depth - 1, 0))
            best = max(best, value + forest(size - 1 - below, depth, rank + 1))
        return best

    return forest(size, depth, 0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0.01, 0.3), min_size=2, max_size=4).map(lambda s: sorted(s, reverse=True)),
    st.integers(1, 10),
    st.integers(1, 5),
)
def test_the_greedy_tree_is_the_best_one(shares: list[float], size: int, depth: int) -> None:
    tree = best_tree(shares, size, depth)
    assert max(tree.depths()) <= depth
    assert expected_drafts(tree, shares) == pytest.approx(brute_force_best(shares, size, depth))


def test_expected_drafts_of_known_trees() -> None:
    assert expected_drafts(ROOT_ONLY, [0.5]) == 0
    assert expected_drafts(TreeShape.chain(3), [0.5]) == pytest.approx(0.5 + 0.25 + 0.125)
    assert expected_drafts(STATIC_TREE, [1.0, 0.0, 0.0, 0.0]) == pytest.approx(5)


def test_the_rank_table_forgets() -> None:
    table = RankTable()
    for _ in range(600):
        table.observe(1)
    assert table.shares[1] > 0.95
    for _ in range(600):
        table.observe(None)
    assert sum(table.shares) < 0.05


def test_costs_are_interpolated_and_not_upset_by_one_slow_call() -> None:
    costs = CostTable()
    assert costs.verify(5) == 0
    costs.observe_verify(1, 500.0)  # the first call of all does not count
    costs.observe_verify(1, 10.0)
    assert costs.verify(26) == 10.0
    costs.observe_verify(11, 12.0)
    assert costs.verify(6) == pytest.approx(11.0)
    assert costs.verify(21) == pytest.approx(14.0)
    costs.observe_verify(1, 1000.0)
    assert costs.verify(1) == pytest.approx(14.0)
    costs.observe_draft(4, 80.0)
    costs.observe_draft(4, 8.0)
    assert costs.draft_s == 2.0


def test_a_draft_that_becomes_good_is_used_again() -> None:
    policy = Policy()
    simulate(policy, 3000, [0.02, 0.01], 3.6, 18.0, 0.2)
    later = simulate(policy, 2000, [0.95, 0.03], 3.6, 18.0, 0.2)
    assert 2000 * 18.0 / later > 1.8


def test_a_longer_video_makes_old_costs_void() -> None:
    policy = Policy()
    policy.begin(1000)
    simulate(policy, 64, [0.9, 0.05], 3.6, 18.0, 0.2)
    policy.begin(1100)
    assert policy.costs.verify_s
    policy.begin(9000)
    assert not policy.costs.verify_s
    assert policy.choose() is ROOT_ONLY
