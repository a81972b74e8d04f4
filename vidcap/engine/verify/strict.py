"""Strict greedy verification: the output is the target's own, token for token."""

from __future__ import annotations

import torch
from torch import Tensor

from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.step import TargetStep
from vidcap.engine.tree import Tree
from vidcap.engine.verify.base import Verdict


class StrictGreedy:
    """Accepts the deepest path on which every draft is the target's arg max.

    Of two equally deep paths the first one counts (they hold the same tokens). Works on the device
    without synchronisation and with shapes that depend on the tree's shape only.
    """

    def judge(self, proposal: Proposal, scores: Tensor, step: TargetStep) -> Accepted:
        """See :class:`vidcap.engine.verify.base.Verifier`."""
        return self.verdict(proposal.tree, scores).read()[0]

    def verdict(self, tree: Tree, scores: Tensor) -> Verdict:
        """The verdict on the device for every row of the batch."""
        choice = scores.argmax(-1)
        expected = choice.gather(1, tree.parents.clamp(min=0))
        hit = (tree.tokens == expected) | (tree.parents < 0)
        reached = (hit[:, None, :] | ~tree.mask).all(-1)
        best = torch.where(reached, tree.depths, -1).argmax(1, keepdim=True)
        path = path_to(tree, best)
        return Verdict(
            count=tree.depths.gather(1, best)[:, 0],
            path=path,
            drafts=tree.tokens.gather(1, path),
            next_token=choice.gather(1, best)[:, 0],
        )


def path_to(tree: Tree, node: Tensor) -> Tensor:
    """Nodes from the root to `node` by depth.

    Args:
        node: Long[b, 1].

    Returns:
        Long[b, n]; columns behind the node's depth are 0.
    """
    batch, size = tree.tokens.shape
    on_path = tree.mask.gather(1, node[:, :, None].expand(batch, 1, size))[:, 0]
    order = torch.arange(size, device=node.device).expand(batch, size)
    # Nodes off the path are written into a spare last column.
    slot = torch.where(on_path, tree.depths, size)
    path = torch.zeros(batch, size + 1, dtype=torch.long, device=node.device)
    return path.scatter_(1, slot, order)[:, :size]
