"""Qwen2-VL through the released classes of transformers."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from vidcap.engine.shards import Shards
from vidcap.models.adapter import ReleasedVideoModel
from vidcap.models.checkpoint import Checkpoint
from vidcap.models.patch_embed import LinearPatchEmbed
from vidcap.models.protocol import VideoInputs
from vidcap.models.trunk import TowerNames
from vidcap.settings import AttentionName

_VIDEO_TOKEN_TYPE = 2


class Qwen2VL(ReleasedVideoModel):
    """Satisfies :class:`vidcap.models.protocol.VideoModel`."""

    tensor_names: ClassVar[tuple[str, ...]] = ("pixel_values_videos", "video_grid_thw")
    tower_names: ClassVar[TowerNames | None] = TowerNames(width="hidden_size")

    def __init__(
        self,
        checkpoint: Checkpoint,
        model: Any,
        attention: AttentionName = "auto",
        shards: Shards | None = None,
    ):
        """See :class:`ReleasedVideoModel`; the patch embedding becomes a matrix product."""
        model.model.visual.patch_embed = LinearPatchEmbed(model.model.visual.patch_embed)
        super().__init__(checkpoint, model, attention, shards)

    def arguments(self, ids: Tensor, inputs: VideoInputs) -> dict[str, Any]:
        """See :meth:`ReleasedVideoModel.arguments`.

        Without the token types some releases count positions in one dimension, silently.
        """
        types = (ids == self._video_id).int() * _VIDEO_TOKEN_TYPE
        return {**super().arguments(ids, inputs), "mm_token_type_ids": types}
