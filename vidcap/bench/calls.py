"""What transformers' ``generate`` does, seen from outside: when tokens come, who is called."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

#: Arguments of a released forward that carry a video, as pixels or encoded.
_VIDEO_ARGUMENTS = ("pixel_values_videos", "mm_encoder_outputs")


class Clock:
    """A streamer that notes when tokens come; they are on the host by then.

    Attributes:
        counts: how many came at once, time by time.
        first, last: ``time.perf_counter()`` of the first and the last time.
    """

    def __init__(self) -> None:
        self._has_prompt = False
        self.counts: list[int] = []
        self.first = self.last = 0.0

    def put(self, value: Tensor) -> None:
        """Called with the prompt, then with the tokens of every round."""
        if not self._has_prompt:
            self._has_prompt = True
            return
        self.last = time.perf_counter()
        self.first = self.first or self.last
        self.counts.append(value.numel())

    def end(self) -> None:
        """Called behind the last token."""


@dataclass(slots=True)
class ModelCalls:
    """The calls of a released model.

    Attributes:
        rows: how many tokens each call was given.
        saw_video: whether any call was given a video.
    """

    rows: list[int] = field(default_factory=list)
    saw_video: bool = False

    def note(self, module: nn.Module, args: Any, arguments: dict[str, Any]) -> None:
        """Called by torch in front of every forward."""
        self.rows.append(arguments["input_ids"].shape[1])
        given = (arguments.get(name) for name in _VIDEO_ARGUMENTS)
        # An empty mapping of encoded inputs is no video.
        self.saw_video |= any(item is not None and len(item) > 0 for item in given)


@contextmanager
def watched(model: nn.Module) -> Iterator[ModelCalls]:
    """Notes the calls of a released model inside."""
    calls = ModelCalls()
    hook = model.register_forward_pre_hook(calls.note, with_kwargs=True)
    try:
        yield calls
    finally:
        hook.remove()
