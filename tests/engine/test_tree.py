"""Tree shapes and strict verdicts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vidcap.engine.tree import ROOT_ONLY, STATIC_TREE, TreeShape, ancestor_mask
from vidcap.engine.verify import StrictGreedy


@st.composite
def shapes(draw: st.DrawFn) -> TreeShape:
    """Random trees; siblings get ranks in order."""
    size = draw(st.integers(1, 20))
    parents, ranks, children = [-1], [0], [0] * size
    for node in range(1, size):
        parent = draw(st.integers(0, node - 1))
        parents.append(parent)
        ranks.append(children[parent])
        children[parent] += 1
    return TreeShape(tuple(parents), tuple(ranks))


def test_the_static_tree_is_the_one_of_specvlm() -> None:
    assert STATIC_TREE.size == 26
    depths = STATIC_TREE.depths()
    assert [depths.count(depth) for depth in range(6)] == [1, 4, 8, 8, 3, 2]
    assert [len(level) for level in STATIC_TREE.levels()] == [1, 4, 4, 1, 1]
    leaves = set(range(26)) - set(STATIC_TREE.parents)
    assert len(leaves) == 15


def test_a_chain_and_the_lone_root() -> None:
    chain = TreeShape.chain(4)
    assert chain.parents == (-1, 0, 1, 2, 3)
    assert chain.levels() == ((0,), (1,), (2,), (3,))
    assert ROOT_ONLY.size == 1
    assert ROOT_ONLY.levels() == ()


def test_a_path_without_its_parent_is_refused() -> None:
    with pytest.raises(ValueError, match="no parent"):
        TreeShape.from_paths([(0,), (1, 0)])


@settings(max_examples=60, deadline=None)
@given(shapes())
def test_masks_hold_exactly_the_ancestors(shape: TreeShape) -> None:
    mask = ancestor_mask(shape.parents)
    for node in range(shape.size):
        expected, walk = set(), node
        while walk >= 0:
            expected.add(walk)
            walk = shape.parents[walk]
        assert set(mask[node].nonzero().flatten().tolist()) == expected
    assert mask.sum(1).sub(1).tolist() == list(shape.depths())


@settings(max_examples=120, deadline=None)
@given(shapes(), st.integers(0, 10_000))
def test_the_verdict_is_the_longest_path_that_plain_decoding_would_take(
    shape: TreeShape, seed: int
) -> None:
    vocab = 4
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, vocab, (1, shape.size), generator=generator)
    scores = torch.rand(1, shape.size, vocab, generator=generator)
    choice = scores[0].argmax(-1).tolist()
    accepted = StrictGreedy().verdict(shape.with_tokens(tokens), scores).read()[0]

    def longest(node: int) -> int:
        below = [
            longest(child)
            for child, parent in enumerate(shape.parents)
            if parent == node and tokens[0, child] == choice[node]
        ]
        return 1 + max(below, default=0)

    assert len(accepted.nodes) == longest(0)
    assert accepted.nodes[0] == 0
    for parent, child in zip(accepted.nodes, accepted.nodes[1:], strict=False):
        assert shape.parents[child] == parent
        assert tokens[0, child] == choice[parent]
    drafts = tokens[0, list(accepted.nodes[1:])].tolist()
    assert list(accepted.tokens) == [*drafts, choice[accepted.nodes[-1]]]


def test_rows_of_a_batch_are_judged_by_themselves() -> None:
    shape = TreeShape.chain(2)
    tokens = torch.tensor([[0, 1, 2], [0, 1, 2]])
    scores = torch.zeros(2, 3, 4)
    for row, wanted in enumerate([(1, 2, 3), (1, 0, 3)]):
        for node, token in enumerate(wanted):
            scores[row, node, token] = 1
    first, second = StrictGreedy().verdict(shape.with_tokens(tokens), scores).read()
    assert first.nodes == (0, 1, 2)
    assert first.tokens == (1, 2, 3)
    assert second.nodes == (0, 1)
    assert second.tokens == (1, 0)
