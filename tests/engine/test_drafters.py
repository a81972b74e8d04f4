"""Dynamic trees, lookup and merged branches, by themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.runs import Run
from tests.tiny import fresh_logits, random_frames
from vidcap.engine.decoder import Decoder
from vidcap.engine.draft import (
    AdaptiveDrafter,
    DynamicDrafter,
    DynamicSettings,
    EntropyShape,
    Lookup,
    LookupDrafter,
    PairDrafter,
    Proposal,
    WithLookup,
)
from vidcap.engine.draft.entropy import DEEP_TREE, WIDE_TREE
from vidcap.engine.draft.merge import merge_branch
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.policy import AUTO_WIDTH, LARGEST_AUTO_TREE, Policy
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.tree import STATIC_TREE, TreeShape
from vidcap.engine.verify import Accepted
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.settings import method_settings

QUESTION = [70, 71, 72]


@pytest.fixture(scope="module")
def model(tiny_target: Path) -> Qwen25VL:
    return load_model(tiny_target, torch.device("cpu"), torch.float32)


class Scripted(Policy):
    """Drafts trees of the depths in a list, round by round, 0 for none."""

    least_chance = 0.0

    def __init__(self, depths: Sequence[int], width: int = AUTO_WIDTH):
        super().__init__()
        self.depths = list(depths)
        self.width = width
        self.left = 0

    def worthy(self, chances: Sequence[float]) -> int:
        return len(chances)

    def drafts(self, *, ready: bool = True) -> bool:
        self.left = self.depths.pop(0)
        self.depths.append(self.left)
        return self.left > 0

    def expands(self, chances: Sequence[float]) -> bool:
        assert len(chances) == self.width
        assert list(chances) == sorted(chances, reverse=True)
        self.left -= 1
        return self.left > 0


def brute_force_tree(
    next_log_probs, form: DynamicSettings, root: int
) -> dict[tuple[int, ...], float]:
    """EAGLE-2's tree with plain loops: path -> log-probability."""
    candidates: dict[tuple[int, ...], float] = {}
    frontier: list[tuple[int, ...]] = [()]
    for _ in range(form.depth):
        level: dict[tuple[int, ...], float] = {}
        for path in frontier:
            best = next_log_probs([root, *path]).topk(form.width)
            for value, token in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                level[(*path, token)] = candidates.get(path, 0.0) + value
        candidates |= level
        frontier = sorted(level, key=lambda path: -level[path])[: form.width]
    chosen = sorted(candidates, key=lambda path: -candidates[path])[: form.nodes]
    return {path: candidates[path] for path in chosen}


@torch.inference_mode()
@pytest.mark.parametrize(
    ("form", "adaptive"),
    [
        (DynamicSettings(12, 3, 4), False),
        (DynamicSettings(5, 4, 2), False),
        (DynamicSettings(LARGEST_AUTO_TREE, 4, AUTO_WIDTH), True),
        (DynamicSettings(4, 4, 1), True),  # a chain
    ],
)
def test_the_tree_of_the_likeliest_paths(
    model: Qwen25VL, form: DynamicSettings, adaptive: bool
) -> None:
    """EAGLE-2's, and an adaptive one that is told to grow to the same depth."""
    prefix = model.encode(model.prepare(random_frames(4), 2.0), "reference")
    prompt = torch.cat([prefix.ids, torch.tensor([QUESTION])], dim=1)
    stack = LogitsStack(LogitsSettings(model.rules.vocab_size, (3,), 1.1), prompt)
    decoder = Decoder.prefill(model.language, prefix).fork(200)
    decoder.append(torch.tensor([QUESTION]))
    policy = Scripted([form.depth], form.width)
    drafter = (
        AdaptiveDrafter(decoder, policy, stack, form.width)
        if adaptive
        else DynamicDrafter(decoder, form, stack)
    )

    def next_log_probs(path: Sequence[int]) -> torch.Tensor:
        logits = fresh_logits(model.language, prefix, [*QUESTION, *committed, *path])[-1:]
        ids = torch.tensor([path])
        mask = torch.ones(1, 1, len(path), dtype=torch.bool)
        return torch.log_softmax(stack.process(logits[None], ids, mask)[0, 0], dim=-1)

    committed: list[int] = []
    root = 90
    for _ in range(2):
        policy.drafts()
        tree = drafter.propose(torch.tensor([[root]])).tree
        expected = brute_force_tree(next_log_probs, form, root)
        parents, tokens = tree.parents[0].tolist(), tree.tokens[0].tolist()
        paths, nodes_of = {0: ()}, {}
        for node in range(1, tree.size):
            assert parents[node] < node
            paths[node] = (*paths[parents[node]], tokens[node])
            nodes_of[paths[node]] = node
        assert set(nodes_of) == set(expected)
        assert [len(path) for path in paths.values()] == tree.depths[0].tolist()
        for node, path in paths.items():
            seen = {column for column in range(tree.size) if tree.mask[0, node, column]}
            assert seen == {0} | {nodes_of[path[:end]] for end in range(1, len(path) + 1)}
        deepest = max(paths.values(), key=len)
        nodes = (0, *(nodes_of[deepest[:end]] for end in range(1, len(deepest) + 1)))
        drafter.commit(Proposal(tree), Accepted(nodes, (*deepest, 101)))
        committed += [root, *deepest]
        stack.commit(torch.tensor([[root, *deepest]]))
        root = 101


@torch.inference_mode()
@pytest.mark.parametrize(
    "shape",
    [
        STATIC_TREE,
        TreeShape.chain(4),
        # Ranks and nodes with children that are no runs of numbers.
        TreeShape.from_paths([(0,), (2,), (3,), (0, 1), (3, 0), (3, 2), (3, 2, 1), (0, 1, 3)]),
    ],
    ids=["static", "chain", "ragged"],
)
def test_every_node_of_a_fixed_shape_holds_the_token_of_its_rank(
    model: Qwen25VL, shape: TreeShape
) -> None:
    """Strict verification hides a wrong tree: it only accepts less. So the tree itself is held."""
    prefix = model.encode(model.prepare(random_frames(4), 2.0), "reference")
    prompt = torch.cat([prefix.ids, torch.tensor([QUESTION])], dim=1)
    stack = LogitsStack(LogitsSettings(model.rules.vocab_size, (3,), 1.1), prompt)
    decoder = Decoder.prefill(model.language, prefix).fork(200)
    decoder.append(torch.tensor([QUESTION]))
    drafter = PairDrafter(decoder, shape, stack)
    committed: list[int] = []
    root = 90
    for _ in range(2):
        tree = drafter.propose(torch.tensor([[root]])).tree
        tokens = tree.tokens[0].tolist()
        paths: list[list[int]] = [[root]]
        for node, parent in enumerate(shape.parents[1:], start=1):
            path = paths[parent]
            logits = fresh_logits(model.language, prefix, [*QUESTION, *committed, *path])[-1:]
            seen = torch.ones(1, 1, len(path), dtype=torch.bool)
            scores = stack.process(logits[None], torch.tensor([path]), seen)[0, 0]
            assert tokens[node] == scores.argsort(descending=True)[shape.ranks[node]]
            paths.append([*path, tokens[node]])
        last = shape.size - 1
        nodes = tuple(tree.mask[0, last].nonzero().flatten().tolist())
        drafter.commit(Proposal(tree), Accepted(nodes, (*paths[last][1:], 101)))
        committed += paths[last]
        stack.commit(torch.tensor([paths[last]]))
        root = 101


def test_dynamic_trees_accept_more_than_a_chain_of_the_same_depth(
    model: Qwen25VL, tiny_perturbed: Path
) -> None:
    draft = load_model(tiny_perturbed, torch.device("cpu"), torch.float32)
    run = Run(model, draft, model.prepare(random_frames(6), 2.0), max_tokens=80)
    chain = run.ask("What moves?", method_settings("sd", draft_tokens=4))[1]
    tree = run.ask("What moves?", method_settings("sd", tree="dynamic"))[1]
    assert tree.mean_accepted_drafts > chain.mean_accepted_drafts


def test_entropy_chooses_the_form() -> None:
    choice = EntropyShape(sure=0.1, unsure=0.6)
    sure = torch.full((1, 50), -20.0)
    sure[0, 3] = 0
    flat = torch.zeros(1, 50)
    between = torch.full((1, 50), -torch.inf)
    between[0, :4] = 0
    assert choice(sure) is DEEP_TREE
    assert choice(flat) is WIDE_TREE
    assert choice(between) is STATIC_TREE
    assert math.log(4) / math.log(50) < 0.6
    assert max(DEEP_TREE.depths()) > max(STATIC_TREE.depths()) > max(WIDE_TREE.depths())
    assert all(20 <= shape.size <= 27 for shape in (DEEP_TREE, WIDE_TREE, STATIC_TREE))


def naive_continuation(
    tokens: list[int], barriers: set[int], longest: int, count: int
) -> list[int]:
    """Prompt lookup by scanning the whole text."""
    for size in range(min(longest, len(tokens)), 0, -1):
        suffix = tokens[-size:]
        if barriers & set(suffix):
            continue
        for begin in range(len(tokens) - size - 1, -1, -1):
            if tokens[begin : begin + size] == suffix:
                found = []
                for token in tokens[begin + size : begin + size + count]:
                    if token in barriers:
                        break
                    found.append(token)
                return found
    return []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 4), st.integers(1, 6))
def test_lookup_equals_a_scan(tokens: list[int], longest: int, count: int) -> None:
    lookup = Lookup(tokens, {0}, longest)
    assert lookup.continuation(count) == naive_continuation(tokens, {0}, longest, count)


def test_lookup_proposes_what_followed_and_never_placeholders() -> None:
    drafter = LookupDrafter(Lookup([5, 6, 7, 8, 99, 99, 1], {99}), 3)
    proposal = drafter.propose(torch.tensor([[6]]))
    assert proposal.tree.tokens.tolist() == [[6, 7, 8]]
    drafter.commit(proposal, Accepted((0, 1), (7, 20)))
    assert drafter.propose(torch.tensor([[20]])).tree.tokens.tolist() == [[20]]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 1000))
def test_a_merged_branch_is_a_path_and_old_nodes_keep_their_places(
    branch: list[int], seed: int
) -> None:
    shape = TreeShape.from_paths([(0,), (1,), (0, 0), (0, 1), (0, 0, 0)])
    generator = torch.Generator().manual_seed(seed)
    old = shape.with_tokens(torch.randint(0, 4, (1, shape.size), generator=generator))
    merged = merge_branch(Proposal(old), branch).tree
    size = old.size
    assert torch.equal(merged.tokens[:, :size], old.tokens)
    assert torch.equal(merged.mask[:, :size, :size], old.mask)
    assert not merged.mask[:, :size, size:].any()
    parents, tokens = merged.parents[0].tolist(), merged.tokens[0].tolist()
    node = 0
    for token in branch:
        below = [
            child
            for child in range(merged.size)
            if parents[child] == node and tokens[child] == token
        ]
        assert below
        node = below[0]
    assert merged.size <= size + len(branch)
    for row in range(merged.size):
        expected, walk = set(), row
        while walk >= 0:
            expected.add(walk)
            walk = parents[walk]
        assert set(merged.mask[0, row].nonzero().flatten().tolist()) == expected
        assert int(merged.depths[0, row]) == len(expected) - 1


class OracleLookup(Lookup):
    """Continues with the true text, as far as it is known."""

    def __init__(self, truth: Sequence[int]):
        super().__init__([], set())
        self.truth = list(truth)

    def continuation(self, count: int) -> list[int]:
        end = len(self._tokens)
        return self.truth[end : end + count]


@pytest.mark.parametrize("tree", ["chain", "static", "dynamic"])
def test_accepted_branches_keep_the_draft_in_step(
    model: Qwen25VL, tiny_perturbed: Path, tree: str
) -> None:
    """Paths that leave the drafted tree for the branch, and drafting that goes on behind them."""
    draft = load_model(tiny_perturbed, torch.device("cpu"), torch.float32)
    run = Run(model, draft, model.prepare(random_frames(6), 2.0), max_tokens=60)
    expected, _ = run.ask("What moves?", method_settings("plain"))
    alone = run.ask("What moves?", method_settings("sd", tree=tree))[1]
    prompt = run.prefill(method_settings("sd", tree=tree))
    generation = run.start("What moves?", prompt)
    inner = generation.make_drafter
    # Every fourth token is beyond the oracle, so that rounds end inside branches as well.
    truth = [token if index % 4 else 7 for index, token in enumerate(expected)]
    generation.make_drafter = lambda: WithLookup(inner(), OracleLookup(truth), 6)
    tokens = [token for new in generation for token in new]
    assert tokens == expected
    assert generation.stats.accepted > alone.accepted


@pytest.mark.parametrize("branch", [0, 6])
def test_trees_may_change_from_round_to_round(model: Qwen25VL, branch: int) -> None:
    run = Run(model, model, model.prepare(random_frames(6), 2.0), max_tokens=60)
    run.policy = Scripted([0, 3, 0, 0, 5, 1])
    tokens, stats = run.ask("What moves?", method_settings("auto", lookup_branch=branch))
    assert tokens == run.transformers("What moves?")
    # The model's choices are close to even, so the likeliest paths are short ones.
    assert stats.histogram[0] > 0
    assert max(stats.histogram) >= 2
    assert sum(run.policy.hits.hits) > 2
    assert run.policy.costs.draft_s is not None


@pytest.mark.parametrize("method", ["sd", "sd-tree"])
def test_samples_of_a_copy_are_all_accepted(model: Qwen25VL, method: str) -> None:
    """Drawn drafts and the distributions that go with them belong together, node by node."""
    run = Run(model, model, model.prepare(random_frames(6), 2.0), max_tokens=56)
    run.sampling = SamplingSettings(0.7, top_p=0.9, seed=3)
    _, stats = run.ask("What moves?", method_settings(method))
    assert stats.histogram[5] == stats.rounds - 1 + int(stats.accepted == 5 * stats.rounds)


def test_a_seed_repeats_the_text(model: Qwen25VL, tiny_perturbed: Path) -> None:
    draft = load_model(tiny_perturbed, torch.device("cpu"), torch.float32)
    run = Run(model, draft, model.prepare(random_frames(6), 2.0), max_tokens=30)
    for name in ("sd", "sd-tree", "auto"):
        run.sampling = SamplingSettings(1.0, seed=3)
        texts = [run.ask("What moves?", method_settings(name))[0] for _ in range(2)]
        assert texts[0] == texts[1]
        run.sampling = SamplingSettings(1.0, seed=4)
        assert run.ask("What moves?", method_settings(name))[0] != texts[0]


def test_an_interrupted_answer_leaves_the_next_question_right(model: Qwen25VL) -> None:
    run = Run(model, model, model.prepare(random_frames(6), 2.0))
    prompt = run.prefill(method_settings("sd-tree"))
    generation = run.start("What moves?", prompt)
    asked = iter([False, True])
    generation.should_stop = lambda: next(asked)
    list(generation)
    assert generation.finish_reason == "interrupted"
    tokens, _ = run.ask("How many?", method_settings("sd-tree"), prompt)
    assert tokens == run.transformers("How many?")


def test_two_threads_may_use_one_model(model: Qwen25VL) -> None:
    """One encodes and prefills over and over while the other decodes."""
    run = Run(model, model, model.prepare(random_frames(6), 2.0))
    expected = run.transformers("What moves?")
    method = method_settings("sd-tree", prune=0.5, prune_by="uv")
    with ThreadPoolExecutor(2) as pool:
        prefills = [pool.submit(run.prefill, method) for _ in range(12)]
        answers = [pool.submit(run.ask, "What moves?", method) for _ in range(6)]
        for prefill in prefills:
            assert prefill.result().probe.layer_inputs.keys() == {0, 1}
        for answer in answers:
            assert answer.result()[0] == expected
