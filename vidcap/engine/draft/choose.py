"""How a draft's scores become tokens: the likeliest ones, or drawn ones."""

from __future__ import annotations

import torch
from torch import Tensor

from vidcap.engine.logits import LogitsStack
from vidcap.engine.sampling import SamplingSettings, draw_distinct


class Chooser:
    """Ranks a node's continuations.

    Greedy: by score. Sampling: distinct tokens drawn from the draft's own distribution, which the
    verifier then needs.
    """

    def __init__(
        self, sampling: SamplingSettings | None = None, generator: torch.Generator | None = None
    ):
        """Args:
        sampling: None for greedy decoding.
        generator: source of randomness, needed with `sampling`.
        """
        self.sampling = sampling
        self._generator = generator

    def rank(self, scores: Tensor, count: int) -> tuple[Tensor, Tensor | None]:
        """Best or drawn tokens Long[b, q, count], and the distribution [b, q, V] they come from."""
        if self.sampling is None or self._generator is None:
            if count == 1:  # one pass over the scores
                return scores.argmax(-1, keepdim=True), None
            return scores.topk(count, dim=-1).indices, None
        probs = self.sampling.probabilities(scores)
        return draw_distinct(probs, count, self._generator), probs

    def buffer(
        self, batch: int, nodes: int, stack: LogitsStack, device: torch.device
    ) -> Tensor | None:
        """Zeros [b, n, V] for the distributions of a tree's nodes, None for greedy decoding."""
        if self.sampling is None:
            return None
        return torch.zeros(batch, nodes, stack.settings.vocab_size, device=device)
