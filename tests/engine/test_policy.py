"""What the policy decides, on costs and acceptance that are known."""

from __future__ import annotations

import random

import pytest

from vidcap.engine.costs import CostTable
from vidcap.engine.policy import HitTable, Policy

DRAFT_S, VERIFY_S, ROW_S = 3.6e-3, 18e-3, 0.2e-3


def simulate(
    policy: Policy,
    tokens: int,
    right: float,
    draft_s: float = DRAFT_S,
    told: float | None = None,
    prefill_s: float = 0.0,
    seed: int = 0,
) -> float:
    """Seconds of an answer, as the loop and a drafter of chains would report it.

    Args:
        right: how often a drafted token is the target's.
        told: the confidence that the draft shows, None for the true one.
        prefill_s: what it takes the draft to read the prompt.
    """
    rng, spent, done = random.Random(seed), 0.0, 0
    told = right if told is None else told
    ready, behind = not policy.losing, False
    if ready:
        policy.observe_prefill(prefill_s, late=False)
        spent += prefill_s
    while done < tokens:
        calls = length = 0
        if policy.drafts(ready=ready):
            if not ready:
                policy.observe_prefill(prefill_s, late=True)
                ready, spent = True, spent + prefill_s
            calls, chance = 1, policy.hits.chance(told)
            length = 1
            while chance > policy.least_chance and policy.expands([chance]) and length < 12:
                calls, length, chance = calls + 1, length + 1, chance * policy.hits.chance(told)
        verify_s = VERIFY_S + ROW_S * length
        # The first call of all is slow, as it is on every machine.
        policy.costs.observe_verify(1 + length, verify_s * (1 if done else 10))
        if not behind:
            policy.costs.observe_draft(calls, calls * draft_s)
        hits = [rng.random() < right for _ in range(length)]
        accepted = hits.index(False) if False in hits else length
        if calls and not behind:
            seen = [(told, hit) for hit in hits[: accepted + 1]]
            policy.observe(1 + accepted, calls * draft_s + verify_s, seen)
        behind = not calls
        spent += calls * draft_s + verify_s
        done += 1 + accepted
    return spent


@pytest.mark.parametrize(("right", "told"), [(0.0, 0.0), (0.02, 0.5), (0.1, 0.9), (0.0, 0.99)])
def test_a_useless_draft_costs_little(right: float, told: float) -> None:
    """One that is sure of itself and wrong included."""
    assert simulate(Policy(), 640, right, told=told) < 1.05 * 640 * VERIFY_S


@pytest.mark.parametrize(("right", "least"), [(0.95, 2.6), (0.8, 1.65), (0.6, 1.2)])
def test_a_good_draft_is_used(right: float, least: float) -> None:
    assert 640 * VERIFY_S / simulate(Policy(), 640, right) > least


@pytest.mark.parametrize("right", [0.6, 0.8, 0.95])
def test_no_fixed_length_is_much_faster(right: float) -> None:
    """The rule finds about the best length without trying them all."""

    def fixed(length: int) -> float:
        accepted = sum(right**k for k in range(1, length + 1))
        return (length * DRAFT_S + VERIFY_S + ROW_S * length) / (1 + accepted)

    policy = Policy()
    simulate(policy, 500, right)
    best = min(fixed(length) for length in range(1, 13))
    assert simulate(policy, 4000, right) / 4000 < 1.06 * best


def test_what_was_learnt_stays_for_the_next_answer() -> None:
    policy = Policy()
    first = simulate(policy, 128, 0.0)
    second = simulate(policy, 128, 0.0)
    assert second < first
    assert second < 1.03 * 128 * VERIFY_S


def answers(policy: Policy, count: int, right: float, prefill_s: float, **parts: float) -> float:
    """Seconds of further answers of 128 tokens behind 1,000 tokens of prompt."""
    spent = 0.0
    for seed in range(count):
        policy.begin(1000)
        spent += simulate(policy, 128, right, prefill_s=prefill_s, seed=seed, **parts)
    return spent


@pytest.mark.parametrize("steps", [0.5, 5, 20, 100])
@pytest.mark.parametrize(("right", "told"), [(0.02, 0.9), (0.1, 0.3), (0.0, 0.99)])
def test_prefills_of_a_losing_draft_cost_little(steps: float, right: float, told: float) -> None:
    """In the long run less than two hundredths, whatever it takes the draft to read a prompt."""
    policy = Policy()
    answers(policy, 1, right, steps * VERIFY_S, told=told)
    assert policy.losing
    assert answers(policy, 200, right, steps * VERIFY_S, told=told) < 1.02 * 200 * 128 * VERIFY_S


def test_a_trial_waits_until_its_prefill_is_paid_for() -> None:
    policy = Policy()
    answers(policy, 1, 0.0, 20 * VERIFY_S)
    plain = 128 * VERIFY_S
    waiting = [answers(policy, 1, 0.0, 20 * VERIFY_S) for _ in range(8)]
    assert waiting == pytest.approx([plain] * 8)
    assert not any(policy.drafts(ready=False) for _ in range(128))
    # Where the draft has read the prompt anyhow, it waits for nothing but its rest.
    assert any(policy.drafts() for _ in range(640))


def test_a_longer_prompt_has_to_save_more() -> None:
    policy = Policy()
    answers(policy, 1, 0.0, VERIFY_S)
    policy.begin(20_000)
    assert simulate(policy, 640, 0.0, prefill_s=20 * VERIFY_S) == pytest.approx(640 * VERIFY_S)


def test_a_draft_that_becomes_good_reads_the_prompt_at_once_again() -> None:
    policy = Policy()
    answers(policy, 20, 0.02, 5 * VERIFY_S)
    assert policy.losing
    answers(policy, 10, 0.95, 5 * VERIFY_S)
    assert not policy.losing
    assert answers(policy, 10, 0.95, 5 * VERIFY_S) < 0.6 * 10 * 128 * VERIFY_S


def test_a_draft_as_slow_as_the_target_is_not_used() -> None:
    policy = Policy()
    assert policy.verdict is None
    assert simulate(policy, 640, 0.7, draft_s=VERIFY_S) < 1.06 * 640 * VERIFY_S
    assert policy.verdict == "drafting does not pay by measured cost and acceptance"


def test_a_draft_that_becomes_good_is_used_again() -> None:
    policy = Policy()
    simulate(policy, 3000, 0.02)
    assert 4000 * VERIFY_S / simulate(policy, 4000, 0.95) > 1.7


def test_confidence_is_believed_as_far_as_it_was_right() -> None:
    table = HitTable()
    assert table.chance(0.9) == pytest.approx(0.9)
    for _ in range(100):
        table.observe(0.93, False)
    assert table.chance(0.92) < 0.05
    assert table.chance(0.6) == pytest.approx(0.6)
    for _ in range(600):
        table.observe(0.93, True)
    assert table.chance(0.92) > 0.95


def test_a_tree_stops_where_a_block_is_full() -> None:
    policy = Policy(costs=CostTable(8.0))
    for rows in [1, 1, 1, 4, 8, 9, 12, 16, 17, 20, 24, 25] * 3:
        policy.costs.observe_verify(rows, 5.0 + 0.05 * rows + 3.0 * (-(-rows // 8) - 1))
    falling = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05]
    assert policy.worthy(falling) == 7  # with the root they fill one block
    assert policy.worthy([0.9, 0.8]) == 2
    assert policy.worthy([0.0]) == 1
    assert policy.worthy([0.95] * 20) == 20
    assert policy.worthy([0.95] * 15 + [0.1] * 5) == 15  # two blocks


def test_a_longer_video_makes_old_costs_void() -> None:
    policy = Policy()
    policy.begin(1000)
    simulate(policy, 64, 0.9)
    policy.begin(1100)
    assert policy.costs.plain_s is not None
    policy.begin(9000)
    assert policy.costs.plain_s is None
    assert not policy.drafts()
