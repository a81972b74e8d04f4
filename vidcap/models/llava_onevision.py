"""LLaVA-OneVision (SigLIP tower, Qwen2 text model) through the released classes of transformers."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from vidcap.engine.shards import Shards
from vidcap.models.adapter import ReleasedVideoModel
from vidcap.models.geometry import LlavaOnevisionGeometry
from vidcap.models.protocol import VideoInputs
from vidcap.models.released import ReleasedLanguageModel
from vidcap.settings import AttentionName


class LlavaOnevision(ReleasedVideoModel):
    """Satisfies :class:`vidcap.models.protocol.VideoModel`.

    The last placeholder of a video is the learned token that closes it. It is a part of the prefix
    and counts as text: no pruning takes it away.
    """

    tensor_names: ClassVar[tuple[str, ...]] = ("pixel_values_videos",)

    def _language(
        self, model: Any, attention: AttentionName, shards: Shards | None
    ) -> ReleasedLanguageModel:
        return _WithNewline(model, attention=attention, shards=shards)

    def _visual(self, ids: Tensor) -> Tensor:
        placeholders = ids == self._video_id
        closing = placeholders.cumsum(-1) == placeholders.sum(-1, keepdim=True)
        return placeholders & ~closing

    def _positions(self, captured: dict[str, Any], ids: Tensor) -> Tensor:
        return torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)

    def _grid(self, inputs: VideoInputs) -> tuple[int, int, int] | None:
        side = cast(LlavaOnevisionGeometry, self.checkpoint.geometry).side
        return inputs.tensors["pixel_values_videos"].shape[1], side, side


class _WithNewline(ReleasedLanguageModel):
    """Embeds a placeholder that is left in a prompt without video as the closing token."""

    def __init__(self, model: Any, attention: AttentionName, shards: Shards | None):
        super().__init__(model, attention=attention, shards=shards)
        self._newline = model.model.image_newline
        self._video_id = model.config.video_token_id

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings [b, n, d] of Long[b, n] text ids."""
        closing = (ids == self._video_id).unsqueeze(-1)
        return torch.where(closing, self._newline.to(self.kv_spec.dtype), super().embed(ids))
