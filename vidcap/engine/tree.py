"""Draft trees: what is drafted in a round, and who follows whom.

Node 0 is the root: the newest committed token, which the target has not processed yet. Every other
node is a drafted token. Parents come before their children.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

#: The 25-node tree of SpecVLM (its ``mc_sim_7b_63``): each path names, depth by depth, the rank of
#: the drafted token among the draft's most likely ones.
STATIC_PATHS: tuple[tuple[int, ...], ...] = (
    *((0,), (1,), (2,), (3,)),
    *((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)),
    *((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 2, 1), (1, 0, 0)),
    *((0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 2)),
    *((0, 0, 0, 0, 0), (0, 0, 0, 0, 1)),
)


@dataclass(frozen=True, slots=True)
class Tree:
    """A drafted tree with its tokens.

    Attributes:
        tokens: Long[b, n] token ids, the root first.
        parents: Long[b, n] index of each node's parent, -1 for the root.
        depths: Long[b, n] 0 for the root.
        mask: bool[b, n, n] True where column j is row i or one of its ancestors.
    """

    tokens: Tensor
    parents: Tensor
    depths: Tensor
    mask: Tensor

    @property
    def size(self) -> int:
        """Number of nodes, the root included."""
        return self.tokens.shape[1]


@dataclass(frozen=True, slots=True)
class TreeShape:
    """A tree whose form is known before drafting.

    Attributes:
        parents: index of each node's parent, -1 for the root (node 0).
        ranks: each node is its parent's rank-th most likely continuation, 0 the likeliest.
    """

    parents: tuple[int, ...]
    ranks: tuple[int, ...]

    @staticmethod
    def from_paths(paths: Sequence[Sequence[int]]) -> TreeShape:
        """Build the shape from rank paths; every prefix of a path must be a path as well."""
        ordered = sorted({tuple(path) for path in paths}, key=lambda path: (len(path), path))
        index = {(): 0} | {path: i + 1 for i, path in enumerate(ordered)}
        missing = [path for path in ordered if path[:-1] not in index]
        if missing:
            raise ValueError(f"path {missing[0]} has no parent")
        return TreeShape(
            parents=(-1, *(index[path[:-1]] for path in ordered)),
            ranks=(0, *(path[-1] for path in ordered)),
        )

    @staticmethod
    def chain(length: int) -> TreeShape:
        """A chain of `length` drafted tokens; 0 leaves the root alone (plain decoding)."""
        return TreeShape.from_paths([(0,) * depth for depth in range(1, length + 1)])

    @property
    def size(self) -> int:
        """Number of nodes, the root included."""
        return len(self.parents)

    def depths(self) -> tuple[int, ...]:
        """Depth of every node."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(0 if parent < 0 else depths[parent] + 1)
        return tuple(depths)

    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Per depth from 0 the nodes that have children: the ones a draft has to run through."""
        depths, inner = self.depths(), set(self.parents) - {-1}
        deepest = max((depths[node] for node in inner), default=-1)
        return tuple(
            tuple(sorted(node for node in inner if depths[node] == depth))
            for depth in range(deepest + 1)
        )

    def with_tokens(self, tokens: Tensor) -> Tree:
        """The tree of this shape with `tokens` (Long[b, n])."""
        parents, depths, mask = _shape_tensors(self, tokens.device)
        batch = tokens.shape[0]
        return Tree(
            tokens,
            parents.expand(batch, -1),
            depths.expand(batch, -1),
            mask.expand(batch, -1, -1),
        )


STATIC_TREE = TreeShape.from_paths(STATIC_PATHS)
ROOT_ONLY = TreeShape.chain(0)


def ancestor_mask(parents: Sequence[int]) -> Tensor:
    """bool[n, n]: row i sees itself and its ancestors."""
    mask = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent >= 0:
            mask[node] |= mask[parent]
    return mask


@lru_cache(maxsize=64)
def _shape_tensors(shape: TreeShape, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    parents = torch.tensor([shape.parents], device=device)
    depths = torch.tensor([shape.depths()], device=device)
    return parents, depths, ancestor_mask(shape.parents)[None].to(device)
