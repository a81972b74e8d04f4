"""What every model family implements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from vidcap.engine.model import EncodedPrefix, LanguageModel
from vidcap.settings import PositionPolicy


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a checkpoint says about its tokens.

    Attributes:
        vocab_size: number of real token ids; the logits may be wider.
        stop_ids: ids that end an answer.
        placeholder_ids: ids that stand for visual content and are never emitted.
        repetition_penalty: from generation_config, 1.0 for none.
        max_positions: longest sequence the checkpoint was made for.
    """

    vocab_size: int
    stop_ids: frozenset[int]
    placeholder_ids: tuple[int, ...]
    repetition_penalty: float
    max_positions: int


@dataclass(frozen=True, slots=True)
class VideoInputs:
    """A video after preprocessing, on the host.

    Attributes:
        ids: Long[1, P] prompt ids up to and including the last visual token.
        tensors: what the model's forward takes besides the ids (pixels, grid, times).
        visual_tokens: number of visual tokens among the ids.
    """

    ids: Tensor
    tensors: dict[str, Any]
    visual_tokens: int


class VideoModel(Protocol):
    """A Video-LLM of one family, loaded."""

    @property
    def language(self) -> LanguageModel:
        """The text half, as the engine drives it."""
        ...

    @property
    def tokenizer(self) -> Any:
        """The checkpoint's fast tokenizer, as transformers loads it."""
        ...

    @property
    def rules(self) -> TokenRules:
        """What the checkpoint says about its tokens."""
        ...

    @property
    def strict_ids(self) -> frozenset[int]:
        """Tokens that loose verification never loosens: special ones, numbers, negations."""
        ...

    @property
    def fact_ids(self) -> frozenset[int]:
        """Tokens that a fact hangs on: English words for colours, places, sizes, order in time."""
        ...

    @property
    def template(self) -> str:
        """The prompt for one video and no words, as the checkpoint's chat template writes it."""
        ...

    @property
    def preprocessing(self) -> str:
        """Equal for models whose :meth:`prepare` gives the same inputs."""
        ...

    def prepare(self, rgb: np.ndarray, fps: float, start_s: float = 0.0) -> VideoInputs:
        """Preprocess frames.

        Args:
            rgb: uint8[n, h, w, 3], at a size that the family's geometry gave.
            fps: frames per second of the sampled frames.
            start_s: when the first of them is shown, for families that write times into the prompt.
        """
        ...

    def encode(self, inputs: VideoInputs, positions: PositionPolicy) -> EncodedPrefix:
        """Run the vision tower and build the prompt prefix."""
        ...

    def suffix_ids(self, prompt: str) -> Tensor:
        """Long[1, n] prompt ids behind the last visual token: the user's words and what follows.

        Raises:
            UsageError: when the words contain one of the model's control tokens.
        """
        ...
