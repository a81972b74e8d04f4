"""Tree shapes by the draft's certainty: sure means deep and narrow, unsure shallow and wide.

The idea is SAGE's (arXiv 2602.00523); shapes and thresholds are ours. All three shapes draft about
as many tokens as the static tree, so that verification costs the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from vidcap.engine.tree import STATIC_TREE, TreeShape


def _paths(*texts: str) -> list[tuple[int, ...]]:
    return [tuple(int(rank) for rank in text) for text in texts]


#: One chain of ten with a few short side branches.
DEEP_TREE = TreeShape.from_paths(
    [(0,) * depth for depth in range(1, 11)]
    + _paths("1", "10", "100", "01", "010", "0100", "001", "0010", "00100")
    + _paths("0001", "00010", "00001")
)
#: Eight first guesses, the best of them with a few continuations.
WIDE_TREE = TreeShape.from_paths(
    [(rank,) for rank in range(8)]
    + _paths("00", "01", "02", "03", "10", "11", "12", "20", "21", "30", "31", "40")
    + _paths("000", "001", "010")
)
#: Every tree that :class:`EntropyShape` can choose.
ENTROPY_TREES = (DEEP_TREE, STATIC_TREE, WIDE_TREE)


@dataclass(frozen=True, slots=True)
class EntropyShape:
    """Chooses a shape by the entropy of the draft's distribution behind the root.

    Attributes:
        sure: share of the largest possible entropy (log V) below which the deep tree is drafted.
        unsure: share above which the wide tree is.
    """

    sure: float = 0.02
    unsure: float = 0.15

    def __call__(self, scores: Tensor) -> TreeShape:
        """The shape for scores [b, V]; the first row decides."""
        log_probs = torch.log_softmax(scores[0].float(), dim=-1)
        terms = torch.where(log_probs > -torch.inf, log_probs.exp() * log_probs, 0.0)
        share = float(-terms.sum()) / math.log(len(log_probs))
        if share < self.sure:
            return DEEP_TREE
        return WIDE_TREE if share > self.unsure else STATIC_TREE
