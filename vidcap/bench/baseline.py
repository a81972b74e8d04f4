"""transformers' own decoding of the same inputs, timed: alone, with a draft, or with a look-up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from vidcap.bench.calls import Clock, watched
from vidcap.engine.attention import ATTENTION_NAME
from vidcap.engine.logits import LogitsSettings
from vidcap.engine.loop import Limits
from vidcap.engine.model import EncodedPrefix
from vidcap.engine.sampling import SamplingSettings
from vidcap.models.protocol import VideoInputs, VideoModel


class ReleasedModel(VideoModel, Protocol):
    """An adapter around a model of transformers."""

    @property
    def model(self) -> Any:
        """The released ``ForConditionalGeneration`` model."""
        ...

    def arguments(self, ids: Tensor, inputs: VideoInputs) -> dict[str, Any]:
        """What its forward takes of a prompt and a video, besides positions."""
        ...


@dataclass(frozen=True, slots=True)
class Assistance:
    """What ``generate`` drafts with; nothing unless one of the two is given.

    Attributes:
        draft: its ``assistant_model``, with a vocabulary of the target's size.
        lookup_tokens: its ``prompt_lookup_num_tokens``.
    """

    draft: ReleasedModel | None = None
    lookup_tokens: int | None = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of ``generate``."""
        given = {
            "assistant_model": self.draft and self.draft.model,
            "prompt_lookup_num_tokens": self.lookup_tokens,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """What ``generate`` gave.

    Attributes:
        tokens: the new ones, a stop token included.
        first_tokens: how many of them came with the prefill; it may have verified drafts already.
        rounds: calls of the target behind the prefill.
        drafted, accepted: drafts verified in these rounds, and those that became text.
        draft_calls: calls of the draft, its prefill included.
        draft_saw_video: whether the draft was given pixels or what a vision tower made of them.
        ttft_s: from the call of ``generate`` to the first token.
        decode_s: from the first token to the last.
    """

    tokens: tuple[int, ...]
    first_tokens: int
    rounds: int
    drafted: int
    accepted: int
    draft_calls: int
    draft_saw_video: bool
    ttft_s: float
    decode_s: float


def full_prompt(prefix: EncodedPrefix, suffix_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Ids Long[1, n] of prefix and question together, and their position ids.

    Returns:
        the ids, and Long[3, 1, n] under M-RoPE or Long[1, n] where positions have one dimension.
    """
    suffix_ids = suffix_ids.to(prefix.ids.device)
    ids = torch.cat([prefix.ids, suffix_ids], dim=1)
    text = torch.arange(suffix_ids.shape[1], device=ids.device) + prefix.suffix_start
    text = text.expand(*prefix.position_ids.shape[:-1], -1)
    return ids, torch.cat([prefix.position_ids, text], dim=-1)


@torch.inference_mode()
def transformers_generate(
    adapter: ReleasedModel,
    inputs: VideoInputs,
    ids: Tensor,
    position_ids: Tensor,
    limits: Limits,
    logits: LogitsSettings,
    sampling: SamplingSettings | None = None,
    assistance: Assistance | None = None,
) -> BaselineRun:
    """Run ``generate`` on the weights of an adapter.

    It gets what the engine gets: position ids, suppressed tokens, repetition penalty, stop tokens,
    and the attention that transformers itself would choose. Everything that ``generate`` does is
    timed, the vision tower included.

    Args:
        adapter: the target.
        inputs: the preprocessed video.
        ids, position_ids: of the whole prompt, see :func:`full_prompt`.
        limits, logits, sampling: as the engine's request has them.
        assistance: what it drafts with, None for plain decoding.
    """
    assistance = assistance or Assistance()
    models = [item.model for item in (adapter, assistance.draft) if item is not None]
    width = adapter.model.config.get_text_config().vocab_size
    clock = Clock()
    with ExitStack() as stack:
        for model in models:
            stack.enter_context(_own_attention(model))
        calls = [stack.enter_context(watched(model)) for model in models]
        stack.enter_context(_seeded(sampling))
        begin = time.perf_counter()
        output = adapter.model.generate(
            **adapter.arguments(ids, inputs),
            **assistance.arguments(),
            **_choice(sampling),
            position_ids=position_ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=limits.max_tokens,
            suppress_tokens=[*logits.suppress, *range(logits.vocab_size, width)],
            repetition_penalty=logits.repetition_penalty,
            eos_token_id=sorted(limits.stop_ids) or None,
            pad_token_id=0,
            streamer=clock,
        )
    tokens: list[int] = output[0, ids.shape[1] :].tolist()
    return BaselineRun(
        tuple(tokens),
        first_tokens=clock.counts[0],
        rounds=len(clock.counts) - 1,
        drafted=sum(rows - 1 for rows in calls[0].rows[1:]),
        accepted=sum(count - 1 for count in clock.counts[1:]),
        draft_calls=sum(len(call.rows) for call in calls[1:]),
        draft_saw_video=any(call.saw_video for call in calls[1:]),
        ttft_s=clock.first - begin,
        decode_s=clock.last - clock.first,
    )


def _choice(sampling: SamplingSettings | None) -> dict[str, Any]:
    """How ``generate`` chooses tokens; it would look at the likeliest 50 only unless told."""
    if sampling is None:
        return {"do_sample": False}
    return {
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": 0,
    }


@contextmanager
def _seeded(sampling: SamplingSettings | None) -> Iterator[None]:
    """torch's own random numbers from the seed, as they were before afterwards."""
    if sampling is None:
        yield
        return
    with torch.random.fork_rng():
        if sampling.seed is None:
            torch.seed()
        else:
            torch.manual_seed(sampling.seed)
        yield


@contextmanager
def _own_attention(model: Any) -> Iterator[None]:
    """The text model on the attention that transformers uses by default."""
    model.set_attn_implementation({"text_config": "sdpa"})
    try:
        yield
    finally:
        model.set_attn_implementation({"text_config": ATTENTION_NAME})
