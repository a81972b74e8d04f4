"""Lossless sampling: the output is distributed as the target's own samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.verify.base import Accepted

if TYPE_CHECKING:
    from vidcap.engine.draft.base import Proposal


class LosslessSampling:
    """Rejection sampling down the tree with recursive residuals.

    At a node with target distribution p, its children are tried in the order in which they were
    drafted. A child x is taken with probability min(1, p(x) / q(x)), q being the draft's
    distribution it was drawn from; on rejection p becomes the normalised positive part of p - q,
    and x leaves q (children are distinct). Children that were chosen and not drawn have q = 1, so
    they are taken with probability p(x) and leave p on rejection. When no child is left, the next
    token is drawn from p. (Leviathan et al., ICML 2023, for chains; SpecInfer, ASPLOS 2024, and
    recursive speculative decoding, 2024, for several children without replacement.)
    """

    def __init__(self, sampling: SamplingSettings, generator: torch.Generator):
        """Args:
        sampling: temperature and nucleus of the target.
        generator: source of randomness on the CPU.
        """
        self._sampling = sampling
        self._generator = generator

    def judge(self, proposal: Proposal, scores: Tensor) -> Accepted:
        """See :class:`vidcap.engine.verify.base.Verifier`."""
        tree = proposal.tree
        target = self._sampling.probabilities(scores[0])
        parents, tokens = tree.parents[0].tolist(), tree.tokens[0].tolist()
        children: dict[int, list[int]] = {}
        for node, parent in enumerate(parents):
            children.setdefault(parent, []).append(node)
        nodes = [0]
        while True:
            draft = proposal.probs[0, nodes[-1]] if proposal.probs is not None else None
            offered = children.get(nodes[-1], [])
            child, left = self._try_children(target[nodes[-1]], draft, offered, tokens)
            if child is None:
                drafts = tuple(tokens[node] for node in nodes[1:])
                return Accepted(tuple(nodes), (*drafts, self._draw(left)))
            nodes.append(child)

    def _try_children(
        self, target: Tensor, draft: Tensor | None, offered: list[int], tokens: list[int]
    ) -> tuple[int | None, Tensor]:
        """The accepted child, or None and the distribution that is left."""
        target = target.double()
        draft = draft.double() if draft is not None else None
        for child in offered:
            token = tokens[child]
            share = float(draft[token]) if draft is not None else 1.0
            # A token the draft could not draw carries no weight in its distribution.
            if share <= 0.0:
                continue
            if self._uniform() * share < float(target[token]):
                return child, target
            target, draft = _residual(target, draft, token)
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
