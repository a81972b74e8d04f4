"""A smaller model of the same family drafts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.base import Proposal
from vidcap.engine.logits import LogitsStack
from vidcap.engine.tree import TreeShape
from vidcap.engine.verify.base import Accepted


class PairDrafter:
    """Drafts a tree of fixed shape, level by level, from the draft model's likeliest tokens.

    Only nodes with children run through the draft. Rows of accepted nodes stay valid and are kept;
    an accepted leaf has no row yet and is fed together with the next root.
    """

    def __init__(self, decoder: Decoder, shape: TreeShape, stack: LogitsStack):
        """Args:
        decoder: the draft model behind the prompt, the question already committed.
        shape: chain or tree to draft.
        stack: the request's logits stack, shared with the target.
        """
        if shape.size < 2:
            raise ValueError("a drafter needs a tree with at least one drafted node")
        self._decoder = decoder
        self._shape = shape
        self._stack = stack
        self._levels = [list(level) for level in shape.levels()]
        self._width = max(shape.ranks) + 1
        self._growth = [_growth(shape, level) for level in self._levels]
        # Node -> row behind the committed ones. The root is committed when it is fed.
        inner = [node for level in self._levels[1:] for node in level]
        self._row = {node: row for row, node in enumerate(inner)}
        self._unfed: list[int] = []

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        tokens = root.new_zeros(root.shape[0], self._shape.size)
        tokens[:, :1] = root
        tree = self._shape.with_tokens(tokens)
        # The tree's node 0 is committed by the time its children run: depths count from it.
        hidden = self._feed_committed(root)
        self._grow(tokens, tree.mask, hidden[:, -1:], level=0)
        for level in range(1, len(self._levels)):
            nodes = self._levels[level]
            hidden = self._decoder.run(
                tokens[:, nodes],
                tree.depths[:, nodes] - 1,
                self._row_mask(tree.mask, nodes),
                offset=self._row[nodes[0]],
            )
            self._grow(tokens, tree.mask, hidden, level)
        return Proposal(tree)

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        kept = [node for node in accepted.nodes[1:] if node in self._row]
        self._decoder.commit([self._row[node] for node in kept])
        self._unfed = list(accepted.tokens[len(kept) : -1])

    def _feed_committed(self, root: Tensor) -> Tensor:
        ids = root
        if self._unfed:
            ids = torch.cat([root.new_tensor([self._unfed]), root], dim=1)
            self._unfed = []
        return self._decoder.append(ids)

    def _row_mask(self, mask: Tensor, nodes: list[int]) -> Tensor:
        """bool[b, q, rows]: which uncommitted draft rows each of `nodes` sees."""
        last = self._row[nodes[-1]]
        columns = [node for node, row in self._row.items() if row <= last]
        return mask[:, nodes][:, :, columns]

    def _grow(self, tokens: Tensor, mask: Tensor, hidden: Tensor, level: int) -> None:
        """Fill in the children of this level's nodes; hidden is [b, q, d], a row per node."""
        nodes, growth = self._levels[level], self._growth[level]
        logits = self._decoder.model.logits(hidden).to(tokens.device)
        scores = self._stack.process(logits, tokens, mask[:, nodes])
        ranked = scores.topk(self._width, dim=-1).indices
        tokens[:, growth.children] = ranked[:, growth.columns, growth.ranks]


@dataclass(frozen=True, slots=True)
class _Growth:
    """Children of one level: which node each is, its parent's column in the level, and its rank."""

    children: list[int]
    columns: list[int]
    ranks: list[int]


def _growth(shape: TreeShape, level: list[int]) -> _Growth:
    column = {node: index for index, node in enumerate(level)}
    children = [node for node, parent in enumerate(shape.parents) if parent in column]
    return _Growth(
        children,
        [column[shape.parents[child]] for child in children],
        [shape.ranks[child] for child in children],
    )
