"""How clear each of the target's choices was."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.tree import TreeShape


@torch.inference_mode()
def choice_margins(
    target: Decoder, suffix_ids: Tensor, settings: LogitsSettings, tokens: Sequence[int]
) -> list[float]:
    """Best score minus second best where each token of an answer was chosen.

    Args:
        target: the target behind the frozen prefix.
        suffix_ids: Long[1, n] prompt tokens behind the last visual token.
        settings: what happens to the scores.
        tokens: the answer, at least one token.

    Returns:
        one margin per token, from a single forward pass over the whole answer. In the number
        formats that round much, they differ a little from those of decoding step by step.
    """
    device = suffix_ids.device
    given = torch.tensor([tokens[:-1]], dtype=torch.long, device=device)
    ids = torch.cat([suffix_ids, given], dim=1)
    decoder = target.fork(ids.shape[1])
    hidden = decoder.append(ids)[:, suffix_ids.shape[1] - 1 :]
    stack = LogitsStack(settings, torch.cat([target.prefix.ids, suffix_ids], dim=1))
    # The answer is a chain behind the prompt's last token, so each row sees its own history.
    chain = TreeShape.chain(len(tokens) - 1).with_tokens(torch.cat([suffix_ids[:, -1:], given], 1))
    scores = stack.process(decoder.model.logits(hidden), chain.tokens, chain.mask)
    best = scores[0].topk(2, dim=-1).values
    margins: list[float] = (best[:, 0] - best[:, 1]).tolist()
    return margins
