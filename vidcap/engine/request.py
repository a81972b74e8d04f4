"""One question behind a prefilled video: joins target, drafter, verifier and limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vidcap.engine.decoder import TargetDecoder
from vidcap.engine.draft import Drafter, NoDraft, PairDrafter
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.loop import Generation, Limits
from vidcap.engine.schedule import PrefilledPrompt
from vidcap.engine.stats import Stats
from vidcap.engine.tree import ROOT_ONLY, STATIC_TREE, TreeShape
from vidcap.engine.verify import StrictGreedy
from vidcap.settings import SpeculationSettings


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked behind the video.

    Attributes:
        suffix_ids: Long[b, n] prompt tokens behind the last visual token.
        limits: when to stop.
        logits: what happens to the scores, the same for every method.
        speculation: the method.
    """

    suffix_ids: Tensor
    limits: Limits
    logits: LogitsSettings
    speculation: SpeculationSettings


def tree_shape(speculation: SpeculationSettings) -> TreeShape:
    """The shape that a method drafts each round."""
    if speculation.tree == "chain":
        return TreeShape.chain(speculation.draft_tokens)
    return STATIC_TREE if speculation.tree == "static" else ROOT_ONLY


@torch.inference_mode()
def start(
    prompt: PrefilledPrompt,
    request: Request,
    stats: Stats,
    should_stop: Callable[[], bool] = lambda: False,
) -> Generation:
    """Run the question through both models and return the generation, ready to iterate over.

    Raises:
        ValueError: when the method drafts and the prompt has no draft.
    """
    shape = tree_shape(request.speculation)
    # Besides the text: the tree's nodes, and a last round that may overshoot by a whole path.
    rows = request.suffix_ids.shape[1] + request.limits.max_tokens + 2 * shape.size
    ids = torch.cat([prompt.target.prefix.ids, request.suffix_ids], dim=1)
    stack = LogitsStack(request.logits, ids)
    with stats.timer("target_prefill"):
        target = TargetDecoder(prompt.target.fork(rows), request.suffix_ids)
    with stats.timer("draft_prefill"):
        drafter = _drafter(prompt, request, shape, stack, rows)
    return Generation(
        target, drafter, StrictGreedy(), stack, request.limits, stats, should_stop=should_stop
    )


def _drafter(
    prompt: PrefilledPrompt, request: Request, shape: TreeShape, stack: LogitsStack, rows: int
) -> Drafter:
    if not request.speculation.needs_draft:
        return NoDraft()
    if prompt.draft is None:
        raise ValueError(f"method '{request.speculation.method}' needs a draft model")
    decoder = prompt.draft.fork(rows)
    decoder.append(request.suffix_ids.to(decoder.kv.spec.device))
    return PairDrafter(decoder, shape, stack)
