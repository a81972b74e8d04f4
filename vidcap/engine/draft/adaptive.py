"""A model drafts a tree that grows as long as growing pays, by its own confidence.

Level by level the likeliest nodes are run and their best continuations added; a policy says after
every level whether the next one is worth its time, and which nodes are worth a row of the target
call. The few numbers that this takes are looked at on the host, once per level.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.rows import DraftRows
from vidcap.engine.logits import LogitsStack
from vidcap.engine.policy import AUTO_WIDTH, DEEPEST_AUTO_TREE, LARGEST_AUTO_TREE, Policy
from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.tree import Tree


@dataclass(slots=True)
class _Node:
    """A candidate: its token, parent's index, the draft's probability, the chance of its path.

    ``row`` is its row in the draft's tail, -1 where it was not run; ``children`` the indices of
    its continuations.
    """

    token: int
    parent: int
    prob: float
    chance: float
    depth: int
    row: int = -1
    children: list[int] = field(default_factory=list)


class AdaptiveDrafter:
    """Drafts trees of the size and depth that a :class:`Policy` finds worth their time."""

    def __init__(
        self, decoder: Decoder, policy: Policy, stack: LogitsStack, width: int = AUTO_WIDTH
    ):
        """Args:
        decoder: the drafting model behind the prompt.
        policy: decides about levels and nodes.
        stack: the request's logits stack, shared with the target.
        width: nodes of a level that are run at most, and continuations of each; 1 for chains.
        """
        self._width = width
        self._rows = DraftRows(decoder)
        self._policy = policy
        self._stack = stack
        self._alone = torch.ones(1, 1, 1, dtype=torch.bool, device=stack.device)
        self._nodes: list[_Node] = []
        self._kept: list[int] = []

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._nodes = [_Node(int(root[0, 0]), -1, 1.0, 1.0, 0)]
        self._continue([0], self._rows.feed(root), root, self._alone)
        ran: list[int] = []
        level = self._nodes[0].children
        while level := self._worth_running(level):
            ran += level
            self._run(level, ran, root)
            level = [child for node in level for child in self._nodes[node].children]
        return Proposal(self._tree(root), calls=self._rows.calls)

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._rows.commit(accepted, [self._nodes[index].row for index in self._kept])

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._rows.skip(root, accepted)

    def seen(self, accepted: Accepted) -> list[tuple[float, bool]]:
        """Probability and rightness of every continuation of the nodes on the accepted path."""
        found = []
        for place, token in zip(accepted.nodes, accepted.tokens, strict=False):
            if place >= len(self._kept):
                break  # a node that another drafter added
            for child in self._nodes[self._kept[place]].children:
                found.append((self._nodes[child].prob, self._nodes[child].token == token))
        return found

    def _worth_running(self, level: list[int]) -> list[int]:
        """The nodes of a level that the draft should run, none where it should stop."""
        if not level or self._nodes[level[0]].depth >= DEEPEST_AUTO_TREE:
            return []
        best = sorted(level, key=lambda index: -self._nodes[index].chance)[: self._width]
        least = self._policy.least_chance
        chances = [self._nodes[index].chance for index in best]
        wanted = sorted(
            index for index, chance in zip(best, chances, strict=True) if chance > least
        )
        return wanted if self._policy.expands([c for c in chances if c > least]) else []

    def _run(self, level: list[int], ran: list[int], root: Tensor) -> None:
        """Run nodes of one level, the last ones of `ran`, and add their continuations."""
        for row, index in enumerate(level, start=len(ran) - len(level)):
            self._nodes[index].row = row
        ids = root.new_tensor([[self._nodes[index].token for index in level]])
        depth = self._nodes[level[0]].depth
        if len(ran) == depth and not self._stack.looks_back:  # a chain so far
            self._continue(level, self._rows.follow(ids, depth), root, self._alone)
            return
        masks = [self._ancestor_rows(index, len(ran)) for index in level]
        mask = torch.tensor([masks], dtype=torch.bool, device=root.device)
        hidden = self._rows.run(ids, depth, mask)
        tokens = torch.cat([root, root.new_tensor([[self._nodes[k].token for k in ran]])], dim=1)
        self._continue(level, hidden, tokens, torch.nn.functional.pad(mask, (1, 0), value=True))

    def _ancestor_rows(self, index: int, count: int) -> list[bool]:
        seen = [False] * count
        while index > 0:
            seen[self._nodes[index].row] = True
            index = self._nodes[index].parent
        return seen

    def _continue(self, level: list[int], hidden: Tensor, tokens: Tensor, mask: Tensor) -> None:
        """Add the best continuations of nodes whose hidden states [1, n, d] are known."""
        logits = self._rows.decoder.model.logits(hidden).to(tokens.device)
        scores = self._stack.process(logits, tokens, mask)[0]
        best = torch.softmax(scores, dim=-1).topk(self._width, dim=-1)
        found = zip(level, best.values.tolist(), best.indices.tolist(), strict=True)
        for index, probs, tokens_of in found:
            node = self._nodes[index]
            for prob, token in zip(probs, tokens_of, strict=True):
                chance = node.chance * self._policy.hits.chance(prob)
                node.children.append(len(self._nodes))
                self._nodes.append(_Node(token, index, prob, chance, node.depth + 1))

    def _tree(self, root: Tensor) -> Tree:
        """The root and the nodes that are worth their rows, the likeliest one in any case."""
        order = sorted(range(1, len(self._nodes)), key=lambda index: -self._nodes[index].chance)
        likeliest = order[:LARGEST_AUTO_TREE]
        count = self._policy.worthy([self._nodes[index].chance for index in likeliest])
        # A path is never likelier than its beginning, so parents are among them; ties go by age.
        self._kept = [0, *sorted(likeliest[:count])]
        place = {index: at for at, index in enumerate(self._kept)}
        parents = [place.get(self._nodes[index].parent, -1) for index in self._kept]
        masks: list[list[bool]] = []
        for at, parent in enumerate(parents):
            row = list(masks[parent]) if at else [False] * len(parents)
            row[at] = True
            masks.append(row)
        return Tree(
            root.new_tensor([[self._nodes[index].token for index in self._kept]]),
            root.new_tensor([parents]),
            root.new_tensor([[self._nodes[index].depth for index in self._kept]]),
            torch.tensor([masks], dtype=torch.bool, device=root.device),
        )
