"""Sampling keeps the target's distribution, for chains, trees and every kind of draft."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopPLogitsWarper

from tests.engine.fakes import FakeTarget, fake_step
from vidcap.engine.draft import Chooser, NoDraft, Proposal
from vidcap.engine.draft.merge import merge_branch
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.loop import Generation, Limits
from vidcap.engine.sampling import SamplingSettings, draw_distinct
from vidcap.engine.stats import Stats
from vidcap.engine.tree import TreeShape
from vidcap.engine.verify import Accepted, LosslessSampling

VOCAB = 5
SHAPES = {
    "chain": TreeShape.chain(2),
    "siblings": TreeShape.from_paths([(0,), (1,), (2,)]),
    "tree": TreeShape.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]),
    "all": TreeShape.from_paths([(rank,) for rank in range(VOCAB)]),
}


def table(seed: int, sharpness: float = 0.8) -> torch.Tensor:
    """Scores [V + 1, V]: what follows each token, the last row what follows the root."""
    return torch.randn(VOCAB + 1, VOCAB, generator=torch.Generator().manual_seed(seed)) * sharpness


def node_rows(shape: TreeShape, tokens: list[int], scores: torch.Tensor) -> torch.Tensor:
    rows = [scores[VOCAB if node == 0 else tokens[node]] for node in range(shape.size)]
    return torch.stack(rows)[None]


def judge(verifier: LosslessSampling, proposal: Proposal, scores: torch.Tensor) -> Accepted:
    return verifier.judge(proposal, scores, fake_step(scores))


def sampled_proposal(shape: TreeShape, draft: torch.Tensor, chooser: Chooser) -> Proposal:
    """A tree drawn from a draft, node by node."""
    tokens = [0] * shape.size
    probs = torch.zeros(1, shape.size, VOCAB)
    for parent in sorted(set(shape.parents) - {-1}):
        row = draft[VOCAB if parent == 0 else tokens[parent]][None, None]
        children = [node for node, above in enumerate(shape.parents) if above == parent]
        ranked, dist = chooser.rank(row, len(children))
        probs[0, parent] = dist[0, 0]
        for node in children:
            tokens[node] = int(ranked[0, 0, shape.ranks[node]])
    return Proposal(shape.with_tokens(torch.tensor([tokens])), probs)


def chosen_proposal(shape: TreeShape, draft: torch.Tensor) -> Proposal:
    """The draft's likeliest tokens, without any distribution."""
    tokens = [0] * shape.size
    for node in range(1, shape.size):
        parent = shape.parents[node]
        row = draft[VOCAB if parent == 0 else tokens[parent]]
        tokens[node] = int(row.argsort(descending=True)[shape.ranks[node]])
    return Proposal(shape.with_tokens(torch.tensor([tokens])))


def check(counts: Counter, expected: dict, total: int) -> None:
    """Chi-square within five standard deviations of its mean, and nothing impossible drawn."""
    assert all(expected[key] > 0 for key in counts)
    possible = {key: share for key, share in expected.items() if share * total >= 3}
    statistic = sum(
        (counts[key] - share * total) ** 2 / (share * total) for key, share in possible.items()
    )
    freedom = len(possible) - 1
    assert freedom >= 1
    assert statistic < freedom + 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("top_p", [1.0, 0.8])
@pytest.mark.parametrize("kind", ["drawn", "chosen"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_two_tokens_follow_the_targets_distribution(
    shape: TreeShape, kind: str, top_p: float
) -> None:
    target, draft = table(1), table(2)
    sampling = SamplingSettings(0.9, top_p)
    generator = torch.Generator().manual_seed(7)
    chooser, verifier = Chooser(sampling, generator), LosslessSampling(sampling, generator)
    probs = sampling.probabilities(target)
    expected = {
        (one, two): float(probs[VOCAB, one] * probs[one, two])
        for one, two in product(range(VOCAB), repeat=2)
    }
    total, counts, accepted_drafts = 3000, Counter(), 0
    for _ in range(total):
        proposal = (
            sampled_proposal(shape, draft, chooser)
            if kind == "drawn"
            else chosen_proposal(shape, draft)
        )
        tokens = proposal.tree.tokens[0].tolist()
        accepted = judge(verifier, proposal, node_rows(shape, tokens, target))
        accepted_drafts += len(accepted.nodes) - 1
        one = accepted.tokens[0]
        two = (
            accepted.tokens[1]
            if len(accepted.tokens) > 1
            else int(torch.multinomial(probs[one], 1, generator=generator))
        )
        counts[one, two] += 1
    check(counts, expected, total)
    assert accepted_drafts > total * 0.1


@pytest.mark.parametrize("token", range(VOCAB))
def test_a_chosen_branch_beside_drawn_drafts_keeps_the_distribution(token: int) -> None:
    # Where a drawn draft is rejected, three other tokens may still come.
    probs = [0.3, 0.25, 0.25, 0.15, 0.05]
    target = torch.tensor(probs).log().expand(VOCAB + 1, VOCAB)
    draft = torch.tensor([0.05, 0.05, 0.05, 0.45, 0.4]).log().expand(VOCAB + 1, VOCAB)
    sampling, generator = SamplingSettings(1.0), torch.Generator().manual_seed(token)
    chooser, verifier = Chooser(sampling, generator), LosslessSampling(sampling, generator)
    counts: Counter = Counter()
    for _ in range(800):
        drawn = sampled_proposal(TreeShape.chain(1), draft, chooser)
        proposal = merge_branch(drawn, [token, 0])
        tokens = proposal.tree.tokens[0].tolist()
        rows = torch.stack([target[VOCAB], *(target[token] for token in tokens[1:])])[None]
        counts[judge(verifier, proposal, rows).tokens[0]] += 1
    check(counts, dict(enumerate(probs)), 800)


def test_a_draft_like_the_target_is_always_accepted() -> None:
    scores, sampling = table(3), SamplingSettings(1.0)
    generator = torch.Generator().manual_seed(0)
    chooser, verifier = Chooser(sampling, generator), LosslessSampling(sampling, generator)
    for _ in range(200):
        proposal = sampled_proposal(SHAPES["chain"], scores, chooser)
        tokens = proposal.tree.tokens[0].tolist()
        accepted = judge(verifier, proposal, node_rows(SHAPES["chain"], tokens, scores))
        assert len(accepted.nodes) == 3


def test_the_loop_samples_the_targets_distribution() -> None:
    """Whole generations against the exact distribution of the first two tokens."""
    prompt, sampling = (3, 1), SamplingSettings(0.1)
    target = FakeTarget(prompt)
    stack = LogitsStack(LogitsSettings(VOCAB), torch.tensor([prompt]))
    first = sampling.probabilities(target.prompt_step().logits[0, 0, :VOCAB])
    expected = {}
    for one in range(VOCAB):
        follows = FakeTarget((*prompt, one)).prompt_step().logits[0, 0, :VOCAB]
        second = sampling.probabilities(follows)
        expected |= {(one, two): float(first[one] * second[two]) for two in range(VOCAB)}
    counts: Counter = Counter()
    generator = torch.Generator().manual_seed(5)
    for _ in range(1500):
        generation = Generation(
            FakeTarget(prompt),
            NoDraft,
            LosslessSampling(sampling, generator),
            stack,
            Limits(2),
            Stats(),
        )
        counts[tuple(token for new in generation for token in new)] += 1
    check(counts, expected, 1500)


def test_probabilities_equal_transformers_warpers() -> None:
    scores = table(4)[:3] * 2
    for temperature, top_p in product((0.5, 1.0, 1.7), (1.0, 0.95, 0.5, 0.01)):
        ids = torch.zeros(3, 1, dtype=torch.long)
        warped = TemperatureLogitsWarper(temperature)(ids, scores)
        if top_p < 1:
            warped = TopPLogitsWarper(top_p)(ids, warped)
        probs = SamplingSettings(temperature, top_p).probabilities(scores)
        torch.testing.assert_close(probs, warped.softmax(-1))


def test_distinct_draws_follow_the_distribution_one_after_the_other() -> None:
    probs = torch.tensor([0.5, 0.3, 0.2, 0.0])
    generator = torch.Generator().manual_seed(1)
    draws = draw_distinct(probs.expand(6000, 4), 2, generator)
    counts = Counter(map(tuple, draws.tolist()))
    expected = {
        (one, two): float(probs[one] * probs[two] / (1 - probs[one])) if one != two else 0.0
        for one, two in product(range(4), repeat=2)
    }
    check(counts, expected, 6000)


def test_a_seed_repeats_and_no_seed_does_not() -> None:
    def draw(seed: int | None) -> list[float]:
        return torch.rand(4, generator=SamplingSettings(1.0, seed=seed).generator()).tolist()

    assert draw(3) == draw(3)
    assert draw(3) != draw(4)
    assert draw(None) != draw(None)


def test_surplus_children_of_probability_zero_are_passed_over() -> None:
    sampling, generator = SamplingSettings(1.0), torch.Generator().manual_seed(0)
    shape = SHAPES["siblings"]
    tree = shape.with_tokens(torch.tensor([[0, 1, 2, 3]]))
    probs = torch.zeros(1, 4, VOCAB)
    probs[0, 0, 4] = 1.0
    scores = torch.full((1, 4, VOCAB), -torch.inf)
    scores[0, :, 2] = 0.0
    accepted = judge(LosslessSampling(sampling, generator), Proposal(tree, probs), scores)
    assert accepted == Accepted((0,), (2,))
