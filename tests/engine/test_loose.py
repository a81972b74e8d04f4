"""Loose verification: rules on hand-made rounds, and whole runs at both ends of the scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.runs import PLAIN, Run
from tests.tiny import random_frames
from vidcap.engine.draft import Proposal
from vidcap.engine.policy import Policy
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.stats import Stats
from vidcap.engine.step import TargetStep
from vidcap.engine.tree import STATIC_TREE, TreeShape
from vidcap.engine.verify import (
    FLyRule,
    Guards,
    LooseGreedy,
    LosslessSampling,
    LVSpecRule,
    RandomRule,
    Reading,
    StrictGreedy,
)
from vidcap.errors import UsageError
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.settings import method_settings

VOCAB = 30
QUESTION = "What moves?"


def scores_for(wanted: list[int], runner_up: list[int] | None = None) -> torch.Tensor:
    """[1, n, VOCAB]: row i wants `wanted[i]` clearly, with `runner_up[i]` as a fair second."""
    scores = torch.full((1, len(wanted), VOCAB), -8.0)
    for row, token in enumerate(wanted):
        if runner_up is not None:
            scores[0, row, runner_up[row]] = 1.0
        scores[0, row, token] = 2.0
    return scores


def chain(tokens: list[int]) -> Proposal:
    return Proposal(TreeShape.chain(len(tokens) - 1).with_tokens(torch.tensor([tokens])))


def step_with(relevance: list[float]) -> TargetStep:
    """Hidden states whose cosine to the visual direction [1, 0] is given."""
    hidden = [[value, math.sqrt(1 - value * value)] for value in relevance]
    return TargetStep(torch.zeros(1, len(relevance), 1), torch.tensor([hidden]))


VISUAL = torch.tensor([[1.0, 0.0]])


def read(proposal: Proposal, scores: torch.Tensor) -> Reading:
    return Reading(proposal.tree, scores, step_with([0.0] * proposal.tree.size))


def judge(rule, proposal: Proposal, scores: torch.Tensor, step: TargetStep):  # type: ignore[no-untyped-def]
    return LooseGreedy(rule).judge(proposal, scores, step)


def test_the_least_relevant_drafts_stand_unchecked() -> None:
    proposal, scores = chain([0, 1, 2, 3, 4]), scores_for([9, 9, 9, 9, 5])
    step = step_with([0.0, 0.1, 0.2, 0.9, 0.3])
    accepted = judge(LVSpecRule(VISUAL, fraction=0.5, shift=False), proposal, scores, step)
    # Nodes 1 and 2 are the two least relevant of four; node 3 is checked and fails.
    assert accepted.tokens == (1, 2, 9)
    assert len(accepted.loosened) == 2


def test_of_equal_relevance_the_earlier_is_loosened() -> None:
    step = step_with([0.0, 0.5, 0.5, 0.5])
    rule = LVSpecRule(VISUAL, fraction=0.4, shift=False)
    accepted = judge(rule, chain([0, 1, 2, 3]), scores_for([9, 9, 9, 9]), step)
    assert accepted.tokens == (1, 9)


def test_a_matching_draft_is_not_counted_as_loosened() -> None:
    step = step_with([0.0, 0.1, 0.2])
    rule = LVSpecRule(VISUAL, fraction=1.0, shift=False)
    accepted = judge(rule, chain([0, 1, 2]), scores_for([1, 9, 9]), step)
    assert accepted.tokens == (1, 2, 9)
    assert len(accepted.loosened) == 1


def test_the_published_shift_swaps_attributes_and_ours_does_not() -> None:
    """Draft "blue circle and red square" where the target says "red circle and blue square"."""
    red, blue, circle, conj, square = 11, 12, 13, 14, 15
    proposal = chain([0, blue, circle, conj, red, square])
    scores = scores_for([red, circle, conj, blue, square, 1], runner_up=[blue] * 6)
    step = step_with([0.0, 0.9, 0.9, 0.9, 0.9, 0.9])
    paper = judge(LVSpecRule(VISUAL, fraction=0.1, guards=None), proposal, scores, step)
    assert paper.tokens[:5] == (blue, circle, conj, red, square)
    ours = LVSpecRule(VISUAL, fraction=0.1, guards=Guards(least_prob=0.0))
    assert judge(ours, proposal, scores, step).tokens[:4] == (blue, circle, conj, blue)
    # Ahead on the path "red" comes later, behind it "blue" does not.


def test_a_shifted_token_must_be_probable_enough() -> None:
    step = step_with([0.0, 0.9, 0.9])
    proposal, scores = chain([0, 1, 2]), scores_for([2, 2, 3])
    loose = LVSpecRule(VISUAL, fraction=0.1, guards=Guards(least_prob=0.0))
    assert judge(loose, proposal, scores, step).tokens == (1, 2, 3)
    guarded = LVSpecRule(VISUAL, fraction=0.1, guards=Guards(least_prob=0.05))
    assert judge(guarded, proposal, scores, step).tokens == (2,)


@pytest.mark.parametrize(("drafted", "wanted"), [(7, 5), (5, 7)])
def test_strict_tokens_are_strict_on_either_side(drafted: int, wanted: int) -> None:
    guards = Guards(frozenset({7}), least_prob=0.0)
    rule = LVSpecRule(VISUAL, fraction=1.0, shift=False, guards=guards)
    step = step_with([0.0, 0.1])
    assert judge(rule, chain([0, drafted]), scores_for([wanted, 1]), step).tokens == (wanted,)
    assert judge(rule, chain([0, 4]), scores_for([5, 1]), step).tokens == (4, 1)


def test_nothing_stands_beside_the_targets_choice() -> None:
    """A longer path may not lead away from a draft that is right."""
    shape = TreeShape.from_paths([(0,), (1,), (0, 0)])
    proposal = Proposal(shape.with_tokens(torch.tensor([[0, 4, 5, 6]])))
    scores, step = scores_for([5, 7, 8, 9], [4, 6, 6, 6]), step_with([0.0] * 4)
    paper = judge(LVSpecRule(VISUAL, fraction=1.0, guards=None), proposal, scores, step)
    assert paper.tokens == (4, 6, 9)
    ours = LVSpecRule(VISUAL, fraction=1.0, guards=Guards(least_prob=0.0))
    assert judge(ours, proposal, scores, step).tokens == (5, 8)
    other = scores_for([3, 7, 8, 9], [4, 6, 6, 6])
    assert judge(ours, proposal, other, step).tokens == (4, 6, 9)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["chain", "static"]))
def test_fraction_0_is_strict_and_fraction_1_unguarded_takes_all(seed: int, name: str) -> None:
    shape = TreeShape.chain(6) if name == "chain" else STATIC_TREE
    generator = torch.Generator().manual_seed(seed)
    # Siblings are distinct, as drafters make them.
    names = [torch.randperm(4, generator=generator).tolist() for _ in range(shape.size)]
    tokens = torch.tensor(
        [[0, *(names[shape.parents[n]][shape.ranks[n]] for n in range(1, shape.size))]]
    )
    scores = torch.rand(1, shape.size, 4, generator=generator)
    step = TargetStep(scores, torch.randn(1, shape.size, 8, generator=generator))
    visual = torch.randn(5, 8, generator=generator)
    proposal = Proposal(shape.with_tokens(tokens))
    for guards in (None, Guards()):
        exact = judge(LVSpecRule(visual, fraction=0.0, guards=guards), proposal, scores, step)
        strict = StrictGreedy().judge(proposal, scores, step)
        assert exact.tokens == strict.tokens
        assert not exact.loosened
    every = judge(LVSpecRule(visual, fraction=1.0, guards=None), proposal, scores, step)
    assert len(every.nodes) - 1 == max(shape.depths())


def fly_reference(match: list[bool], entropy: list[float], mode: str, theta: float, window: int):
    """FLy by its description: which mismatches stand. 0-based over the drafted tokens."""
    behind = window - 1 if mode == "code" else window
    allowed = []
    for index, same in enumerate(match):
        follow = match[index + 1 : index + 1 + behind]
        allowed.append(
            not same and len(follow) == behind and all(follow) and entropy[index] >= theta
        )
    return allowed


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.booleans(), min_size=1, max_size=12),
    st.integers(0, 1000),
    st.sampled_from(["paper", "code"]),
    st.integers(1, 4),
)
def test_fly_follows_its_description(match: list[bool], seed: int, mode: str, window: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    length = len(match)
    scores = torch.randn(1, length + 1, VOCAB, generator=generator) * 3
    choice = scores[0].argmax(-1).tolist()
    tokens = [0] + [choice[i] if same else (choice[i] + 1) % VOCAB for i, same in enumerate(match)]
    probs = scores[0].softmax(-1)
    if mode == "paper":
        entropy = [float(-(row * row.log()).sum() / math.log(VOCAB)) for row in probs[:-1]]
        theta = 0.4
    else:
        top = probs.topk(3, dim=-1).values[:-1]
        entropy = [float(-(row * row.log()).sum()) for row in top]
        theta = 0.6
    rule = FLyRule(mode=mode, theta=theta, window=window)
    allowed = rule.allowed(read(chain(tokens), scores))
    assert allowed[0, 1:].tolist() == fly_reference(match, entropy, mode, theta, window)


def test_chance_loosens_the_same_share_whatever_the_relevance() -> None:
    rule = RandomRule(fraction=0.5, seed=1)
    proposal, scores = chain(list(range(9))), scores_for([9] * 9)
    drawn = [rule.allowed(read(proposal, scores))[0, 1:] for _ in range(200)]
    assert all(int(row.sum()) == 4 for row in drawn)
    share = torch.stack(drawn).float().mean(0)
    assert ((share > 0.35) & (share < 0.65)).all()
    guarded = RandomRule(fraction=1.0, guards=Guards(frozenset({3}), 0.0))
    allowed = guarded.allowed(read(proposal, scores))[0]
    assert allowed.tolist()[1:] == [True, True, False, True, True, True, True, True]


def test_fly_judges_chains_only() -> None:
    with pytest.raises(UsageError, match="chains only"):
        method_settings("fly", tree="static")


@pytest.fixture(scope="module")
def run(tiny_target: Path, tiny_perturbed: Path) -> Run:
    cpu = torch.device("cpu")
    target, draft = (load_model(path, cpu, torch.float32) for path in (tiny_target, tiny_perturbed))
    inputs = target.prepare(random_frames(8), 2.0)
    return Run(target, draft, inputs, max_tokens=45)


@pytest.mark.parametrize("tree", ["chain", "static", "dynamic"])
def test_a_run_at_fraction_0_is_lossless(run: Run, tree: str) -> None:
    method = method_settings("lvspec", tree=tree, loose_fraction=0.0)
    tokens, stats = run.ask(QUESTION, method)
    assert tokens == run.ask(QUESTION, PLAIN)[0]
    assert stats.loosened == 0


class Watched(Policy):
    """Drafts chains of three levels in every round and keeps what it is told."""

    least_chance = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[int, list[tuple[float, bool]]]] = []
        self.widths: set[int] = set()

    def worthy(self, chances: Sequence[float]) -> int:
        return len(chances)

    def drafts(self, *, ready: bool = True) -> bool:
        self.levels = 3
        return True

    def expands(self, chances: Sequence[float]) -> bool:
        self.widths.add(len(chances))
        self.levels -= 1
        return self.levels > 0

    def observe(self, tokens: int, seconds: float, seen: Iterable[tuple[float, bool]]) -> None:
        self.told.append((tokens, list(seen)))
        super().observe(tokens, seconds, self.told[-1][1])


def auto_run(run: Run, draft: Path, **parts: object) -> tuple[list[int], Stats, Watched]:
    """An answer of ``auto`` with a draft of random weights."""
    policy = Watched()
    far = load_model(draft, torch.device("cpu"), torch.float32)
    tokens, stats = replace(run, draft=far, policy=policy).ask(
        QUESTION, method_settings("auto", verify="loose", **parts)
    )
    return tokens, stats, policy


def test_auto_at_fraction_0_is_lossless(run: Run, tiny_draft: Path) -> None:
    tokens, stats, policy = auto_run(run, tiny_draft, loose_fraction=0.0)
    assert tokens == run.ask(QUESTION, PLAIN)[0]
    assert stats.loosened == 0
    assert stats.drafted > stats.rounds == len(policy.told)
    assert policy.widths == {1}  # siblings bring little where a first choice may stand


def test_what_is_let_through_is_a_hit_to_auto(run: Run, tiny_draft: Path) -> None:
    """Its hit rates are those of what is accepted, and so is the pace that it goes by."""
    strict = auto_run(run, tiny_draft, loose_fraction=0.0)[2]
    _, stats, loose = auto_run(run, tiny_draft, loose_fraction=1.0, lvspec_mode="paper")
    assert stats.loosened > stats.accepted / 2
    for tokens, seen in loose.told:
        # One continuation of each node on the path is the next one; behind the leaf maybe too.
        assert tokens - 1 <= sum(hit for _, hit in seen) <= tokens
    right = [sum(policy.hits.hits) / sum(policy.hits.counts) for policy in (strict, loose)]
    assert right[1] > 0.2 > right[0]
    per_round = [sum(tokens for tokens, _ in p.told) / len(p.told) for p in (strict, loose)]
    assert per_round[1] > 1.5 * per_round[0]


def test_auto_draws_no_trees_for_fly() -> None:
    with pytest.raises(UsageError, match="chains only"):
        method_settings("auto", verify="loose", loose_rule="fly")


def test_a_run_at_fraction_1_unguarded_is_the_drafts_text(run: Run) -> None:
    method = method_settings("lvspec", loose_fraction=1.0, lvspec_mode="paper")
    _, stats = run.ask(QUESTION, method)
    assert stats.histogram[10] >= stats.rounds - 1
    assert 0 < stats.loosened <= stats.accepted


def test_what_is_cut_off_does_not_count_as_loosened(run: Run, tiny_draft: Path) -> None:
    far = load_model(tiny_draft, torch.device("cpu"), torch.float32)
    method = method_settings("lvspec", loose_fraction=1.0, lvspec_mode="paper")
    for limit in (3, 8):  # both within the first round of ten drafts
        _, stats = replace(run, draft=far, max_tokens=limit).ask(QUESTION, method)
        assert stats.rounds == 1
        assert 0 < stats.loosened <= stats.accepted == limit - 1


def test_all_that_no_guard_holds_may_stand_unless_a_share_is_given() -> None:
    guarded, paper = method_settings("lvspec"), method_settings("lvspec", lvspec_mode="paper")
    assert (guarded.loosened_share, paper.loosened_share) == (1.0, 0.7)
    assert method_settings("lvspec", loose_rule="random").loosened_share == 0.7
    assert method_settings("lvspec", loose_fraction=0.2).loosened_share == 0.2
    ranking = [one.ranks_relevance for one in (guarded, paper, method_settings("sd"))]
    assert ranking == [False, True, False]
    with pytest.raises(ValueError, match="visual tokens"):
        LVSpecRule(None, fraction=0.5)


def test_a_share_accepts_more_than_strict_and_less_than_everything(run: Run) -> None:
    strict = run.ask(QUESTION, method_settings("lvspec", verify="strict"))[1]
    loose = run.ask(QUESTION, method_settings("lvspec", loose_fraction=0.7, loose_delta=0.0))[1]
    assert strict.accepted / strict.rounds < loose.accepted / loose.rounds < 10
    assert loose.loosened > 0


def test_a_stop_token_is_never_passed_over(run: Run) -> None:
    plain = run.ask(QUESTION, PLAIN)[0]
    run.stop_ids = frozenset({plain[6]})
    try:
        method = method_settings("lvspec", loose_fraction=1.0, loose_delta=0.0)
        tokens, _ = run.ask(QUESTION, method)
        assert run.stop_ids.isdisjoint(tokens[:-1])
    finally:
        run.stop_ids = frozenset()


def test_sampling_at_fraction_1_unguarded_takes_every_draft() -> None:
    sampling, generator = SamplingSettings(1.0), torch.Generator().manual_seed(0)
    rule = LVSpecRule(VISUAL, fraction=1.0, guards=None)
    verifier = LosslessSampling(sampling, generator, rule)
    accepted = verifier.judge(
        chain([0, 1, 2, 3]), scores_for([9, 9, 9, 5]), step_with([0.0, 0.1, 0.1, 0.1])
    )
    assert accepted.nodes == (0, 1, 2, 3)
    assert len(accepted.loosened) == 3


@torch.inference_mode()
def test_visual_mass_equals_eager_attention(run: Run) -> None:
    from tests.tiny import full_prompt
    from vidcap.engine.decoder import Decoder, TargetDecoder

    target: Qwen25VL = run.target
    prefix = target.encode(run.inputs, "reference")
    suffix = target.suffix_ids(QUESTION)
    decoder = Decoder.prefill(target.language, prefix).fork(100)
    decoder.append(suffix)
    model = TargetDecoder(decoder, visual_mass=True)
    tokens = [90, 91, 92]
    step = model.verify(TreeShape.chain(2).with_tokens(torch.tensor([tokens])))
    assert step.visual_mass is not None

    words = torch.cat([suffix, torch.tensor([tokens])], dim=1)
    _, positions = full_prompt(prefix, words)
    embeds = torch.cat([prefix.embeds, target.language.embed(words)], dim=1)
    target.model.set_attn_implementation({"text_config": "eager"})
    try:
        eager = target.model.model.language_model(
            inputs_embeds=embeds, position_ids=positions, output_attentions=True, use_cache=False
        ).attentions[-1]
    finally:
        target.model.set_attn_implementation({"text_config": "vidcap_split"})
    expected = eager[:, :, -3:, prefix.visual_index].sum(-1).mean(1)
    torch.testing.assert_close(step.visual_mass, expected, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("method", ["sd", "sd-tree", "lookup", "auto", "self", "dynamic"])
def test_viskip_changes_the_rounds_and_not_the_text(run: Run, method: str) -> None:
    parts = {"tree": "dynamic"} if method == "dynamic" else {}
    name = "sd" if method == "dynamic" else method
    plain = run.ask(QUESTION, PLAIN)[0]
    for threshold in (0.0, 0.35, 0.6, 1.0):
        tokens, stats = run.ask(QUESTION, method_settings(name, viskip=threshold, **parts))
        assert tokens == plain
        if threshold == 0.0:
            assert stats.skipped >= stats.rounds - 1
        if threshold == 1.0:
            assert stats.skipped == 0
