"""The logits stack against transformers' own processors."""

from __future__ import annotations

import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor, SuppressTokensLogitsProcessor

from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.tree import STATIC_TREE

VOCAB = 40


@pytest.mark.parametrize("penalty", [1.0, 1.05, 1.3])
def test_every_node_gets_what_generate_would_give_its_history(penalty: float) -> None:
    generator = torch.Generator().manual_seed(0)
    prompt = torch.randint(0, VOCAB, (1, 6), generator=generator)
    committed = torch.randint(0, VOCAB, (1, 3), generator=generator)
    tokens = torch.randint(0, VOCAB, (1, STATIC_TREE.size), generator=generator)
    tree = STATIC_TREE.with_tokens(tokens)
    logits = torch.randn(1, STATIC_TREE.size, VOCAB + 8, generator=generator)
    stack = LogitsStack(LogitsSettings(VOCAB, (3, 7), penalty), prompt)
    stack.commit(committed)
    scores = stack.process(logits, tree.tokens, tree.mask)
    assert scores.shape == (1, STATIC_TREE.size, VOCAB)
    for node in range(STATIC_TREE.size):
        path = tokens[0, tree.mask[0, node]]
        history = torch.cat([prompt[0], committed[0], path])[None]
        expected = logits[:, node, :VOCAB].clone()
        if penalty != 1.0:
            expected = RepetitionPenaltyLogitsProcessor(penalty)(history, expected)
        expected = SuppressTokensLogitsProcessor([3, 7], "cpu")(history, expected)
        torch.testing.assert_close(scores[:, node], expected)


def test_bfloat16_logits_are_compared_in_float32() -> None:
    stack = LogitsStack(LogitsSettings(4, (), 1.05), torch.tensor([[0]]))
    logits = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]], dtype=torch.bfloat16)
    scores = stack.process(logits, torch.tensor([[1]]), torch.ones(1, 1, 1, dtype=torch.bool))
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores[0, 0], torch.tensor([1 / 1.05, 2 / 1.05, 3, 4]))
