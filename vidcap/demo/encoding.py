"""Texts to ids and positions, as the chat template and the released model lay them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from vidcap.demo.tokenizer import TURN_END, VIDEO_PAD, VISION_END

#: Position ids per pair of frames: tokens_per_second times the second that a pair spans.
IDS_PER_GRID = 2


class Encoder:
    """Texts to ids, as the chat template lays them out."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self.turn_end: int = tokenizer.convert_tokens_to_ids(TURN_END)
        self._video_pad = tokenizer.convert_tokens_to_ids(VIDEO_PAD)
        self._video_end = tokenizer.convert_tokens_to_ids(VISION_END)
        ids = self._render("")
        self.opening = ids[: ids.index(self._video_pad)]
        self._cut = ids.index(self._video_end) + 1

    def _render(self, request: str) -> list[int]:
        content = [{"type": "video"}, {"type": "text", "text": request}]
        text = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        return self._tokenizer(text).input_ids

    def shared(self, visual: int) -> list[int]:
        """Ids up to the end of a video of ``visual`` tokens."""
        return [*self.opening, *[self._video_pad] * visual, self._video_end]

    def request(self, text: str) -> list[int]:
        """Ids from behind the video to the point where the answer starts."""
        return self._render(text)[self._cut :]

    def answer(self, text: str) -> list[int]:
        """Ids of an answer and the end of its turn."""
        return [*self._tokenizer(text).input_ids, self.turn_end]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        return str(self._tokenizer.decode(ids))


def shared_positions(start: int, grid: tuple[int, int, int]) -> tuple[Tensor, int]:
    """Position ids of opening, video and its end mark, and the first id behind.

    Args:
        start: tokens before the video.
        grid: merged visual tokens in time, height and width.

    Returns:
        long [3, start + visual tokens + 1], and the next id: text goes on above the largest id of
        the video on every axis, as the authors of Qwen2.5-VL released it.
    """
    t, h, w = grid
    axes = torch.meshgrid(
        torch.arange(t) * IDS_PER_GRID, torch.arange(h), torch.arange(w), indexing="ij"
    )
    video = torch.stack(axes).flatten(1) + start
    behind = int(video.max()) + 1
    text = torch.arange(start).expand(3, start)
    return torch.cat((text, video, torch.full((3, 1), behind)), dim=1), behind + 1
