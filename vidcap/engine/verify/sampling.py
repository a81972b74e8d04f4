"""Lossless sampling: the output is distributed as the target's own samples."""

from __future__ import annotations

import torch
from torch import Tensor

from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.step import TargetStep
from vidcap.engine.tree import Tree
from vidcap.engine.verify.loose import LooseRule, Reading


class LosslessSampling:
    """Rejection sampling down the tree with recursive residuals.

    At a node with target distribution p, its children are tried in the order in which they were
    drafted. A child x is taken with probability min(1, p(x) / q(x)), q being the draft's
    distribution it was drawn from; on rejection p becomes the normalised positive part of p - q,
    and x leaves q (children are distinct). Children that were chosen and not drawn have q = 1, so
    they are taken with probability p(x) and leave p on rejection; they are tried after the drawn
    ones. When no child is left, the next token is drawn from p. (Leviathan et al., ICML 2023, for
    chains; SpecInfer, ASPLOS 2024, and recursive speculative decoding, 2024, for several children
    without replacement.)
    """

    def __init__(
        self,
        sampling: SamplingSettings,
        generator: torch.Generator,
        rule: LooseRule | None = None,
    ):
        """Args:
        sampling: temperature and nucleus of the target.
        generator: source of randomness on the CPU.
        rule: lets some nodes stand untested, which gives losslessness up; None for none.
        """
        self._sampling = sampling
        self._generator = generator
        self._rule = rule

    def judge(self, proposal: Proposal, scores: Tensor, step: TargetStep) -> Accepted:
        """See :class:`vidcap.engine.verify.base.Verifier`."""
        tree = proposal.tree
        free = self._free(tree, scores, step)
        parents, tokens = tree.parents[0].tolist(), tree.tokens[0].tolist()
        children: dict[int, list[int]] = {}
        for node, parent in enumerate(parents):
            children.setdefault(parent, []).append(node)
        nodes = [0]
        while True:
            node = nodes[-1]
            offered = children.get(node, [])
            child = next((child for child in offered if child in free), None)
            left = target = self._sampling.probabilities(scores[0, node])
            if child is None:
                drafted = [(tokens[other], proposal.drawn(other)) for other in offered]
                taken, left = self._try_children(target, proposal.distribution(node), drafted)
                child = None if taken is None else offered[taken]
            if child is None:
                drafts = tuple(tokens[node] for node in nodes[1:])
                loosened = tuple(at for at, node in enumerate(nodes[1:]) if free.get(node))
                return Accepted(tuple(nodes), (*drafts, self._draw(left)), loosened)
            nodes.append(child)

    def _free(self, tree: Tree, scores: Tensor, step: TargetStep) -> dict[int, bool]:
        """Nodes that stand untested, and whether they differ from the target's likeliest token."""
        if self._rule is None:
            return {}
        reading = Reading(tree, scores, step)
        match, allowed = reading.match[0].tolist(), self._rule.allowed(reading)[0].tolist()
        return {node: not match[node] for node in range(1, tree.size) if allowed[node]}

    def _try_children(
        self, target: Tensor, draft: Tensor | None, offered: list[tuple[int, bool]]
    ) -> tuple[int | None, Tensor]:
        """Index of the accepted child, or None and the distribution that is left.

        Args:
            target: [V] the target's distribution.
            draft: [V] what drawn children come from.
            offered: per child its token and whether it was drawn; drawn ones come first.
        """
        target = target.double()
        draft = draft.double() if draft is not None else None
        for index, (token, drawn) in enumerate(offered):
            source = draft if drawn else None
            share = float(source[token]) if source is not None else 1.0
            # A token the draft could not draw carries no weight in its distribution.
            if share <= 0.0:
                continue
            if self._uniform() * share < float(target[token]):
                return index, target
            target, rest = _residual(target, source, token)
            draft = rest if drawn else draft
        return None, target

    def _uniform(self) -> float:
        return float(torch.rand((), generator=self._generator, dtype=torch.float64))

    def _draw(self, probs: Tensor) -> int:
        return int(torch.multinomial(probs.cpu(), 1, generator=self._generator))


def _residual(target: Tensor, draft: Tensor | None, token: int) -> tuple[Tensor, Tensor | None]:
    """What is left of both distributions after `token` was rejected."""
    if draft is None:
        target = target.clone()
        target[token] = 0.0
        return target / target.sum(), None
    left = (target - draft).clamp(min=0)
    if left.sum() <= 0:
        # Equal but for rounding: nothing is owed to other tokens.
        left = target
    draft = draft.clone()
    draft[token] = 0.0
    remaining = draft.sum()
    return left / left.sum(), draft / remaining if remaining > 0 else draft
