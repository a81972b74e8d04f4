"""transformers' own greedy decoding of the same inputs, timed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from vidcap.engine.attention import ATTENTION_NAME
from vidcap.engine.logits import LogitsSettings
from vidcap.engine.loop import Limits
from vidcap.engine.model import EncodedPrefix
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
class BaselineRun:
    """What ``generate`` gave.

    Attributes:
        tokens: the new ones, a stop token included.
        ttft_s: from the call of ``generate`` to the first token.
        decode_s: from the first token to the last.
    """

    tokens: tuple[int, ...]
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
def transformers_greedy(
    adapter: ReleasedModel,
    inputs: VideoInputs,
    ids: Tensor,
    position_ids: Tensor,
    limits: Limits,
    logits: LogitsSettings,
) -> BaselineRun:
    """Run ``generate`` on the weights of an adapter.

    It gets what the engine gets: position ids, suppressed tokens, repetition penalty, stop tokens,
    and the attention that transformers itself would choose. Everything that ``generate`` does is
    timed, the vision tower included.

    Args:
        adapter: the target.
        inputs: the preprocessed video.
        ids, position_ids: of the whole prompt, see :func:`full_prompt`.
        limits, logits: as the engine's request has them.
    """
    model = adapter.model
    width = model.config.get_text_config().vocab_size
    clock = _Clock()
    with _own_attention(model):
        begin = time.perf_counter()
        output = model.generate(
            **adapter.arguments(ids, inputs),
            position_ids=position_ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=limits.max_tokens,
            suppress_tokens=[*logits.suppress, *range(logits.vocab_size, width)],
            repetition_penalty=logits.repetition_penalty,
            eos_token_id=sorted(limits.stop_ids) or None,
            pad_token_id=0,
            streamer=clock,
        )
    tokens: list[int] = output[0, ids.shape[1] :].tolist()
    return BaselineRun(tuple(tokens), clock.first - begin, clock.last - clock.first)


class _Clock:
    """A streamer that notes when tokens come; they are on the host by then."""

    def __init__(self) -> None:
        self._calls = 0
        self.first = self.last = 0.0

    def put(self, value: Tensor) -> None:
        """Called with the prompt, then with every token."""
        self._calls += 1
        if self._calls > 1:
            self.last = time.perf_counter()
            self.first = self.first or self.last

    def end(self) -> None:
        """Called behind the last token."""


@contextmanager
def _own_attention(model: Any) -> Iterator[None]:
    """The text model on the attention that transformers uses by default."""
    model.set_attn_implementation({"text_config": "sdpa"})
    try:
        yield
    finally:
        model.set_attn_implementation({"text_config": ATTENTION_NAME})
