"""Qwen2.5-VL through the released classes of transformers."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from vidcap.models.geometry import QwenVLGeometry
from vidcap.models.qwen2_vl import Qwen2VL
from vidcap.models.trunk import TowerNames


class Qwen25VL(Qwen2VL):
    """Satisfies :class:`vidcap.models.protocol.VideoModel`; its temporal positions are seconds."""

    tensor_names: ClassVar[tuple[str, ...]] = (*Qwen2VL.tensor_names, "second_per_grid_ts")
    tower_names: ClassVar[TowerNames | None] = TowerNames()

    def _tensors(self, features: Any, fps: float) -> dict[str, Tensor]:
        # Checkpoints that name the processor of Qwen2-VL do not get this from it.
        seconds = cast(QwenVLGeometry, self.checkpoint.geometry).seconds_per_grid(fps)
        tensors = {name: features[name] for name in Qwen2VL.tensor_names}
        return {**tensors, "second_per_grid_ts": torch.tensor([seconds])}
