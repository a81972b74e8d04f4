"""Dynamic trees, lookup and merged branches, by themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.runs import Run
from tests.tiny import fresh_logits, random_frames
from vidcap.engine.decoder import Decoder
from vidcap.engine.draft import (
    DynamicDrafter,
    DynamicSettings,
    EntropyShape,
    Lookup,
    LookupDrafter,
    Proposal,
)
from vidcap.engine.draft.entropy import DEEP_TREE, WIDE_TREE
from vidcap.engine.draft.merge import merge_branch
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.tree import STATIC_TREE, TreeShape
from vidcap.engine.verify import Accepted
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.settings import method_settings

QUESTION = [70, 71, 72]


@pytest.fixture(scope="module")
def model(tiny_target: Path) -> Qwen25VL:
    return load_model(tiny_target, torch.device("cpu"), torch.float32)


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
@pytest.mark.parametrize("form", [DynamicSettings(12, 3, 4), DynamicSettings(5, 4, 2)])
def test_the_dynamic_tree_is_eagle2s(model: Qwen25VL, form: DynamicSettings) -> None:
    prefix = model.encode(model.prepare(random_frames(4), 2.0), "reference")
    prompt = torch.cat([prefix.ids, torch.tensor([QUESTION])], dim=1)
    stack = LogitsStack(LogitsSettings(model.rules.vocab_size, (3,), 1.1), prompt)
    decoder = Decoder.prefill(model.language, prefix).fork(200)
    decoder.append(torch.tensor([QUESTION]))
    drafter = DynamicDrafter(decoder, form, stack)

    def next_log_probs(path: Sequence[int]) -> torch.Tensor:
        logits = fresh_logits(model.language, prefix, [*QUESTION, *committed, *path])[-1:]
        ids = torch.tensor([path])
        mask = torch.ones(1, 1, len(path), dtype=torch.bool)
        return torch.log_softmax(stack.process(logits[None], ids, mask)[0, 0], dim=-1)

    committed: list[int] = []
    root = 90
    for _ in range(2):
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
