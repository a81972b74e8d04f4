"""How good a model of the pair is: facts in its captions, and how often two models agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vidcap.demo.answers import score_answer
from vidcap.demo.batches import Batch
from vidcap.demo.encoding import Encoder, shared_positions
from vidcap.demo.forward import Forward
from vidcap.demo.language import DESCRIBE_PROMPTS, QUESTION_KINDS, questions
from vidcap.demo.scenes import truth
from vidcap.demo.score import FactScore, pooled, score_caption

#: Clips of a batch about which questions are asked; each answer takes a decoding of its own.
_ASKED_CLIPS = 4


@torch.no_grad()
def greedy(
    forward: Forward, frames: Tensor, request: Sequence[int], encoder: Encoder, limit: int = 160
) -> list[list[int]]:
    """Plain greedy answers to one request on clips of one size.

    Args:
        frames: uint8 [b, n, h, w, 3], n even.
        request: ids from behind the video to the start of the answer.
        limit: most tokens of an answer.

    Returns:
        Per clip the ids of the answer, without the end of its turn.
    """
    visual = forward.vision(frames)
    b, n, height, width, _ = frames.shape
    start = len(encoder.opening)
    positions, behind = shared_positions(start, (n // 2, height // 28, width // 28))
    tail = torch.arange(behind, behind + len(request)).expand(3, -1)
    positions = torch.cat((positions, tail), 1)[:, None].expand(3, b, -1).to(frames.device)
    ids = torch.tensor([*encoder.shared(visual.shape[1]), *request], device=frames.device)
    x = forward.embed(ids.expand(b, -1), visual, start)
    answers = _decode(forward, x, positions, encoder.turn_end, limit)
    return [
        row[: row.index(encoder.turn_end)] if encoder.turn_end in row else row for row in answers
    ]


def _decode(
    forward: Forward, x: Tensor, positions: Tensor, end: int, limit: int
) -> list[list[int]]:
    text, head = forward.text, forward.model.lm_head
    cache: Any = None
    at = positions[..., -1:]
    tokens: list[Tensor] = []
    ended = torch.zeros(x.shape[0], dtype=torch.bool, device=x.device)
    while len(tokens) < limit and not ended.all():
        out = text(inputs_embeds=x, position_ids=positions, use_cache=True, cache=cache)
        cache = out.cache
        tokens.append(head(out.last_hidden_state[:, -1]).argmax(-1))
        ended |= tokens[-1] == end
        at = at + 1
        x, positions = text.embed_tokens(tokens[-1][:, None]), at
    return torch.stack(tokens, 1).tolist()


def fact_score(
    forward: Forward, batches: Iterable[Batch], encoder: Encoder
) -> tuple[FactScore, list[str]]:
    """Facts in greedy captions of the batches' clips, pooled, and the captions."""
    request = encoder.request(DESCRIBE_PROMPTS[0])
    scores: list[FactScore] = []
    texts: list[str] = []
    for batch in batches:
        answers = greedy(forward, batch.frames, request, encoder)
        for scene, ids in zip(batch.scenes, answers, strict=True):
            texts.append(encoder.decode(ids))
            scores.append(score_caption(truth(scene), texts[-1]))
    return pooled(scores), texts


def question_score(
    forward: Forward, batches: Iterable[Batch], encoder: Encoder
) -> dict[str, tuple[int, int]]:
    """Answers right and questions asked, per kind, for the first clips of each batch."""
    counts = {kind: [0, 0] for kind in QUESTION_KINDS}
    for batch in batches:
        for row, scene in enumerate(batch.scenes[:_ASKED_CLIPS]):
            for one in questions(scene, np.random.default_rng(scene.seed)):
                request = encoder.request(one.text)
                ids = greedy(forward, batch.frames[row : row + 1], request, encoder, limit=40)[0]
                counts[one.kind][0] += score_answer(one, encoder.decode(ids))
                counts[one.kind][1] += 1
    return {kind: (right, count) for kind, (right, count) in counts.items()}


@torch.no_grad()
def agreement(target: Forward, draft: Forward, batch: Batch) -> float:
    """Share of the texts' tokens that both models predict alike, given the text so far."""
    learnt = batch.targets >= 0
    guesses = [model.logits(predict(model, batch)[learnt]).argmax(-1) for model in (target, draft)]
    return (guesses[0] == guesses[1]).float().mean().item()


def predict(forward: Forward, batch: Batch) -> Tensor:
    """Last hidden states [b, length, hidden] of a batch."""
    x = forward.embed(batch.ids, forward.vision(batch.frames), batch.start)
    return forward.hidden(x, batch.positions, batch.mask())
