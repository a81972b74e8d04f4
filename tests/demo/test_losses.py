"""How much each token of the texts weighs in the loss."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from vidcap.demo.batches import IGNORED, Batch
from vidcap.demo.losses import text_loss


def batch_of(texts: list[int], targets: list[int]) -> Batch:
    rows = torch.zeros(1, len(texts), dtype=torch.long)
    return Batch(
        frames=torch.zeros(1, 2, 28, 28, 3, dtype=torch.uint8),
        labels={},
        ids=rows,
        positions=rows.expand(3, -1, -1),
        texts=torch.tensor([texts]),
        targets=torch.tensor([targets]),
        start=0,
        scenes=(),
    )


def logits_of(probabilities: list[float]) -> Tensor:
    """Logits over two tokens that give token 0 these probabilities."""
    return torch.tensor([[math.log(p), math.log(1 - p)] for p in probabilities])


@pytest.mark.parametrize("answers", [1.0, 3.0])
def test_answers_weigh_more_than_captions(answers: float) -> None:
    batch = batch_of([0, 1, 1, 2, -1], [IGNORED, 0, 1, 0, IGNORED])
    loss = text_loss(logits_of([0.5, 0.5, 0.1]), batch, torch.ones(2), answers)
    wanted = (2 * -math.log(0.5) + answers * -math.log(0.1)) / (2 + answers)
    assert loss.item() == pytest.approx(wanted)


def test_tokens_weigh_as_they_are_told() -> None:
    batch = batch_of([1, 1], [0, 1])
    loss = text_loss(logits_of([0.8, 0.4]), batch, torch.tensor([3.0, 1.0]))
    assert loss.item() == pytest.approx((3 * -math.log(0.8) - math.log(0.6)) / 4)
