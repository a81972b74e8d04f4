"""Adding a branch to a drafted tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from vidcap.engine.round import Proposal
from vidcap.engine.tree import Tree


def merge_branch(proposal: Proposal, branch: Sequence[int]) -> Proposal:
    """The proposal with `branch` as a path from the root.

    Tokens that the tree drafts already on that path are not drafted twice; new nodes stand behind
    the old ones, so that old indices stay valid.
    """
    if not branch:
        return proposal
    tree = proposal.tree
    tokens, parents = tree.tokens[0].tolist(), tree.parents[0].tolist()
    depths = tree.depths[0].tolist()
    child_of = {(parents[node], tokens[node]): node for node in range(len(tokens) - 1, 0, -1)}
    node = 0
    for token in branch:
        below = child_of.get((node, token))
        if below is None:
            below = len(tokens)
            tokens.append(token)
            parents.append(node)
            depths.append(depths[node] + 1)
        node = below
    added = len(tokens) - tree.size
    if not added:
        return proposal
    device = tree.tokens.device
    mask = torch.nn.functional.pad(tree.mask[0], (0, added, 0, added))
    for new in range(tree.size, len(tokens)):
        mask[new] = mask[parents[new]]
        mask[new, new] = True
    rows = [torch.tensor([row], device=device) for row in (tokens, parents, depths)]
    merged = Tree(rows[0], rows[1], rows[2], mask[None])
    return replace(proposal, tree=merged, chosen_from=tree.size)
