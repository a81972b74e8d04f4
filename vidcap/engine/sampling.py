"""Temperature and nucleus sampling, in the order in which transformers applies them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """Attributes:
    temperature: above 0; scores are divided by it.
    top_p: keep the fewest most likely tokens that hold this mass, 1.0 for all.
    seed: of the random numbers; None draws a new one.
    """

    temperature: float
    top_p: float = 1.0
    seed: int | None = None

    def generator(self) -> torch.Generator:
        """A random generator on the CPU, so that a seed means the same on every device."""
        generator = torch.Generator()
        if self.seed is None:
            generator.seed()
        else:
            generator.manual_seed(self.seed)
        return generator

    def probabilities(self, scores: Tensor) -> Tensor:
        """Distribution float32 [..., V] from processed scores [..., V]."""
        probs = torch.softmax(scores.float() / self.temperature, dim=-1)
        if self.top_p >= 1.0:
            return probs
        ranked, order = probs.sort(dim=-1, descending=True, stable=True)
        # A token stays while the mass in front of it is short of top_p; the first always does.
        outside = ranked.cumsum(-1) - ranked >= self.top_p
        ranked = ranked.masked_fill(outside, 0.0)
        kept = torch.zeros_like(probs).scatter_(-1, order, ranked)
        return kept / kept.sum(-1, keepdim=True)


def draw_distinct(probs: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Tokens drawn one after the other without replacement (Gumbel top-k).

    Args:
        probs: [..., V].
        count: how many, at most V.

    Returns:
        Long[..., count] in the order of drawing. Where fewer than `count` tokens have any
        probability, the surplus ones are arbitrary tokens of probability zero.
    """
    # Double precision: float32 noise is too coarse to reach the tail of a large vocabulary.
    noise = torch.empty(probs.shape, dtype=torch.float64).exponential_(generator=generator)
    gumbel = -torch.log(noise.to(probs.device))
    return (torch.log(probs.double()) + gumbel).topk(count, dim=-1).indices
