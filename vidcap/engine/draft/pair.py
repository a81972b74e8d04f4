"""A model drafts a tree whose shape is known when its root has been seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.choose import Chooser
from vidcap.engine.draft.rows import DraftRows
from vidcap.engine.logits import LogitsStack
from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.tree import TreeShape

#: The shape of a round's tree, from the draft's scores [b, V] behind the root.
ShapeChoice = Callable[[Tensor], TreeShape]


class PairDrafter:
    """Drafts chains and trees level by level; only nodes with children run through the model."""

    def __init__(
        self,
        decoder: Decoder,
        shape: TreeShape | ShapeChoice,
        stack: LogitsStack,
        chooser: Chooser | None = None,
    ):
        """Args:
        decoder: the draft model behind the prompt, the question already committed.
        shape: what to draft, the same every round or chosen at the root.
        stack: the request's logits stack, shared with the target.
        chooser: picks tokens from scores; None for the likeliest ones.
        """
        self._rows = DraftRows(decoder)
        self._choose_shape = (lambda scores: shape) if isinstance(shape, TreeShape) else shape
        self._stack = stack
        self._chooser = chooser or Chooser()
        self._row_of: list[int] = []

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        alone = torch.ones(root.shape[0], 1, 1, dtype=torch.bool, device=root.device)
        scores = self._scores(self._rows.feed(root), root, alone)
        shape = self._choose_shape(scores[:, 0])
        plan = _plan(shape)
        tokens = root.new_zeros(root.shape[0], shape.size)
        tokens[:, :1] = root
        tree = shape.with_tokens(tokens)
        probs = self._chooser.buffer(root.shape[0], shape.size, self._stack, root.device)
        for depth, level in enumerate(plan.levels):
            if depth:
                mask = tree.mask[:, level.nodes][:, :, level.inner]
                hidden = self._rows.run(tokens[:, level.nodes], depth, mask)
                scores = self._scores(hidden, tokens, tree.mask[:, level.nodes])
            ranked, dist = self._chooser.rank(scores, level.width)
            tokens[:, level.children] = ranked.flatten(1)[:, level.choices]
            if probs is not None and dist is not None:
                probs[:, level.nodes] = dist
        self._row_of = plan.row_of
        return Proposal(tree, probs, calls=self._rows.calls)

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._rows.commit(accepted, self._row_of)

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._rows.skip(root, accepted)

    def _scores(self, hidden: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
        logits = self._rows.decoder.model.logits(hidden).to(tokens.device)
        return self._stack.process(logits, tokens, mask)


#: Where something lies in a dimension. A run of places is a slice: that is a view, and no list has
#: to become a tensor in every round.
_Places = slice | list[int]


@dataclass(frozen=True, slots=True)
class _Level:
    """The nodes of one depth that have children.

    Attributes:
        nodes: their places in the tree.
        inner: places of the nodes that have rows in the draft's tail when these have run.
        children: places of their children.
        choices: per child, where its token stands in `width` ranked tokens of every node.
        width: how many ranks are needed.
    """

    nodes: _Places
    inner: _Places
    children: _Places
    choices: _Places
    width: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a shape is drafted: its levels, and each node's row in the draft's tail."""

    levels: tuple[_Level, ...]
    row_of: list[int]


@lru_cache(maxsize=32)
def _plan(shape: TreeShape) -> _Plan:
    if shape.size < 2:
        raise ValueError("a drafter needs a tree with at least one drafted node")
    depths = shape.levels()
    inner = [node for level in depths[1:] for node in level]
    row_of = [inner.index(node) if node in inner else -1 for node in range(shape.size)]
    levels = []
    for level in depths:
        nodes = list(level)
        children = [node for node, parent in enumerate(shape.parents) if parent in nodes]
        ranks = [shape.ranks[child] for child in children]
        width = max(ranks) + 1
        columns = [nodes.index(shape.parents[child]) for child in children]
        choices = [column * width + rank for column, rank in zip(columns, ranks, strict=True)]
        rows = inner[: row_of[nodes[-1]] + 1]
        levels.append(
            _Level(_places(nodes), _places(rows), _places(children), _places(choices), width)
        )
    return _Plan(tuple(levels), row_of)


def _places(indices: list[int]) -> _Places:
    first = indices[0] if indices else 0
    run = list(range(first, first + len(indices)))
    return slice(first, first + len(indices)) if indices == run else indices
