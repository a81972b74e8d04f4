"""A target and drafters of a few lines: next tokens follow from the history alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from vidcap.engine.draft import Proposal
from vidcap.engine.step import TargetStep
from vidcap.engine.tree import Tree, TreeShape
from vidcap.engine.verify import Accepted

VOCAB = 23


def fake_logits(history: tuple[int, ...]) -> Tensor:
    """Scores [VOCAB] that depend on the whole history, without ties."""
    seed = hash(history) & 0x7FFFFFFF
    return torch.rand(VOCAB, generator=torch.Generator().manual_seed(seed))


def fake_step(logits: Tensor) -> TargetStep:
    """A step whose hidden states hold nothing."""
    return TargetStep(logits, logits.new_zeros(*logits.shape[:2], 1))


def path_tokens(tree: Tree, node: int) -> tuple[int, ...]:
    """Tokens from the root to a node, found by walking up the parents."""
    tokens: list[int] = []
    while node >= 0:
        tokens.append(int(tree.tokens[0, node]))
        node = int(tree.parents[0, node])
    return tuple(reversed(tokens))


@dataclass
class FakeTarget:
    """Knows the committed tokens and answers for every node of a tree."""

    prompt: tuple[int, ...]
    committed: list[int] = field(default_factory=list)
    calls: int = 0

    def prompt_step(self) -> TargetStep:
        return fake_step(fake_logits(self.prompt)[None, None])

    def verify(self, tree: Tree) -> TargetStep:
        self.calls += 1
        history = self.prompt + tuple(self.committed)
        rows = [fake_logits(history + path_tokens(tree, node)) for node in range(tree.size)]
        self._tree = tree
        return fake_step(torch.stack(rows)[None])

    def commit(self, accepted: Accepted) -> None:
        self.committed += [int(self._tree.tokens[0, node]) for node in accepted.nodes]


@dataclass
class FakeDrafter:
    """Fills a tree with the target's own choices, wrong ones, or a mixture.

    Args:
        quality: share of nodes that get the truth; a sibling of a true node never repeats it.
        mode: ``truth`` follows `quality`; ``adversarial`` puts the least likely token everywhere.
    """

    prompt: tuple[int, ...]
    shape: TreeShape
    quality: float = 1.0
    mode: str = "truth"
    seed: int = 0
    history: list[int] = field(default_factory=list)

    def propose(self, root: Tensor) -> Proposal:
        generator = torch.Generator().manual_seed(self.seed + len(self.history))
        tokens = torch.zeros(1, self.shape.size, dtype=torch.long)
        tokens[0, 0] = root[0, 0]
        tree = self.shape.with_tokens(tokens)
        for node in range(1, self.shape.size):
            parent = self.shape.parents[node]
            before = self.prompt + tuple(self.history) + path_tokens(tree, parent)
            order = fake_logits(before).argsort(descending=True)
            rank = self.shape.ranks[node]
            if self.mode == "adversarial":
                rank = VOCAB - 1 - rank
            elif torch.rand(1, generator=generator).item() >= self.quality:
                rank += 5
            tokens[0, node] = order[rank]
        return Proposal(tree)

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        self.history += [int(proposal.tree.tokens[0, node]) for node in accepted.nodes]


def greedy(prompt: tuple[int, ...], count: int) -> list[int]:
    """What one-token greedy decoding gives."""
    tokens: list[int] = []
    while len(tokens) < count:
        tokens.append(int(fake_logits(prompt + tuple(tokens)).argmax()))
    return tokens
