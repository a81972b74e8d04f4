"""What the pair learns from: texts, and what each visual token shows and stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vidcap.demo.batches import Batch
from vidcap.demo.forward import Forward
from vidcap.demo.world import BACKGROUND_COLOURS, COLOURS, SHAPES

#: How much more a word that carries a fact weighs than one that could be said in many ways.
FACT_WEIGHT = 3.0
#: Words that carry facts; colours and shapes come on top.
FACT_WORDS = """
one two three four five six seven eight nine ten single no not never nothing none yes
small little tiny large big larger bigger smaller same different differ
still rests motionless left right up down upward upwards downward downwards leftwards rightwards
upper lower middle top bottom rises climbs sinks falls diagonally round circle circles circling loop
bounces bouncing swings back forth fro grows growing swells expands shrinks shrinking contracts
appears view shows disappears vanishes away gone enters leaves turns becomes changes
first last before after above below higher plain gradient checks checkerboard checkered
grainy grain noisy speckled fades
"""


def word_weights(tokenizer: Any, rows: int) -> Tensor:
    """Weight of each token of the vocabulary in the loss of a text: float32 [rows].

    Args:
        tokenizer: whose tokens; a token counts as a fact where it spells a whole word of one.
        rows: of the model's head, at least the size of the vocabulary.
    """
    words = {*FACT_WORDS.split(), *COLOURS, *BACKGROUND_COLOURS, *SHAPES}
    weights = torch.ones(rows)
    for index in range(len(tokenizer)):
        text = tokenizer.decode([index]).strip().lower()
        if text in words or re.fullmatch(r"\d+", text):
            weights[index] = FACT_WEIGHT
    return weights


def text_loss(logits: Tensor, batch: Batch, weights: Tensor, answers: float = 1.0) -> Tensor:
    """Cross-entropy of a batch's texts, a weighted mean.

    Args:
        logits: [rows where something is learnt, vocabulary].
        weights: of the wanted tokens, [vocabulary].
        answers: how much more a token weighs behind the first text of a clip, its caption.
    """
    learnt = batch.targets >= 0
    targets = batch.targets[learnt]
    losses = F.cross_entropy(logits, targets, reduction="none")
    factors = weights[targets] * torch.where(batch.texts[learnt] > 1, answers, 1.0)
    return (losses * factors).sum() / factors.sum()


def likeness(logits: Tensor, wanted: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """How far a draft is from its target, two weighted means over the rows.

    Args:
        logits, wanted: of draft and target, [rows, vocabulary].
        weights: of the target's choices, [vocabulary].

    Returns:
        the Kullback-Leibler divergence, and the cross-entropy with the target's choices as labels.
    """
    choices = wanted.argmax(-1)
    own, other = (F.log_softmax(one, -1) for one in (logits, wanted))
    far = F.kl_div(own, other, reduction="none", log_target=True).sum(-1)
    unlike = F.nll_loss(own, choices, reduction="none")
    factors = weights[choices]
    return (far * factors).sum() / factors.sum(), (unlike * factors).sum() / factors.sum()


def label_heads(hidden: int, classes: Mapping[str, int]) -> nn.ModuleDict:
    """Throw-away linear heads, one per key."""
    return nn.ModuleDict({key: nn.Linear(hidden, count) for key, count in classes.items()})


def label_loss(states: Tensor, heads: nn.ModuleDict, batch: Batch) -> Tensor:
    """Cross-entropy of heads on states [b, visual tokens, hidden], summed over the labels."""
    losses = [
        F.cross_entropy(head(states).flatten(0, 1), batch.labels[key].flatten())
        for key, head in heads.items()
    ]
    return torch.stack(losses).sum()


def label_accuracy(
    states: Iterable[tuple[Tensor, Batch]], heads: nn.ModuleDict, keys: Iterable[str]
) -> dict[str, float]:
    """Per label, the share right among visual tokens that show an object."""
    right, count = dict.fromkeys(keys, 0.0), 0
    for visual, batch in states:
        shown = batch.labels["shape"] > 0
        count += int(shown.sum())
        for key in right:
            guess = heads[key](visual).argmax(-1)
            right[key] += float(((guess == batch.labels[key]) & shown).sum())
    return {key: value / max(1, count) for key, value in right.items()}


class TextStates:
    """Last hidden states of a batch, and those of its visual tokens behind a layer on the way.

    Args:
        forward: of the model.
        layer: the layer behind which the text model should know what visual tokens stand for.
    """

    def __init__(self, forward: Forward, layer: int):
        self._forward, self._layer = forward, layer

    def __call__(self, batch: Batch, visual: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits [rows, vocabulary] where something is learnt, and states [b, tokens, hidden]."""
        visual = self._forward.vision(batch.frames) if visual is None else visual
        x = self._forward.embed(batch.ids, visual, batch.start)
        taps = {self._layer: x}
        last = self._forward.hidden(x, batch.positions, batch.mask(), taps)
        shown = taps[self._layer][:, batch.start : batch.start + visual.shape[1]]
        return self._forward.logits(last[batch.targets >= 0]), shown
