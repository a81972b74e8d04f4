"""Sizes and token counts of Qwen3-VL.

Patches are larger than in Qwen2.5-VL (16 pixels), and the processor's bounds hold for the pixels of
all frames together instead of for each one. Every step of the temporal grid has a time stamp in
words and marks of its own in the prompt; these are text and not counted here. As qwen-vl-utils does
it, a pair of frames gets at most 768 tokens unless the user asks for more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vidcap.errors import ModelError
from vidcap.models.geometry.patches import (
    FRAME_TOKENS,
    MAX_ASPECT_RATIO,
    PatchGeometry,
    check_patches,
    qwen_placeholders,
    too_narrow,
)


@dataclass(frozen=True, slots=True)
class Qwen3VLGeometry(PatchGeometry):
    """Geometry of one Qwen3-VL checkpoint; the bounds are on the pixels of all frames together.

    Attributes:
        frame_tokens: most visual tokens of a frame; None for what the budget allows.
        fixed_cap: whether `frame_tokens` comes from the checkpoint and the user cannot raise it.
    """

    frame_tokens: int | None
    fixed_cap: bool = False

    def frame_size(
        self, n_frames: int, height: int, width: int, max_pixels: int | None = None
    ) -> tuple[int, int]:
        """See :meth:`Geometry.frame_size`."""
        frames = max(n_frames, self.temporal_patch_size)
        upper = self._budget(frames, capped=max_pixels is None or self.fixed_cap)
        if max_pixels is not None:
            upper = min(upper, max_pixels * frames)
        return self._fit(frames, height, width, min(self.min_pixels, upper), upper)

    def _budget(self, frames: int, *, capped: bool) -> int:
        """Most pixels of all frames together."""
        if self.frame_tokens is None or not capped:
            return self.max_pixels
        share = min(self.frame_tokens * self.factor**2, self.max_pixels // frames)
        return max(share, int(self.min_pixels * 1.05)) * frames

    def _fit(
        self, frames: int, height: int, width: int, min_pixels: int, max_pixels: int
    ) -> tuple[int, int]:
        factor = self.factor
        if min(height, width) < 1:
            raise too_narrow(height, width)
        tall, wide = height, width
        if min(tall, wide) < factor:
            scale = max(factor / tall, factor / wide)
            tall, wide = int(tall * scale), int(wide * scale)
        if max(tall, wide) > MAX_ASPECT_RATIO * min(tall, wide):
            raise too_narrow(height, width)
        rounded = round(tall / factor) * factor, round(wide / factor) * factor
        steps = round(frames / self.temporal_patch_size) * self.temporal_patch_size
        volume = steps * rounded[0] * rounded[1]
        if volume > max_pixels:
            scale = math.sqrt(frames * tall * wide / max_pixels)
            return (
                max(factor, math.floor(tall / scale / factor) * factor),
                max(factor, math.floor(wide / scale / factor) * factor),
            )
        if volume < min_pixels:
            scale = math.sqrt(min_pixels / (frames * tall * wide))
            return (
                math.ceil(tall * scale / factor) * factor,
                math.ceil(wide * scale / factor) * factor,
            )
        return rounded


def qwen3_vl_geometry(
    config: Mapping[str, Any], processor: Mapping[str, Any], where: str
) -> Qwen3VLGeometry:
    """The geometry of a Qwen3-VL checkpoint.

    Args:
        config: the content of its ``config.json``.
        processor: the settings of its video processor.
        where: its folder or name, for messages.

    Raises:
        ModelError: values are broken, or the processor and the model disagree.
    """
    size = processor.get("size")
    size = size if isinstance(size, Mapping) else {}
    cap = processor.get("cap_pixels_per_frame")
    try:
        geometry = Qwen3VLGeometry(
            family=str(config["model_type"]),
            patch_size=int(processor.get("patch_size", 16)),
            merge_size=int(processor.get("merge_size", 2)),
            temporal_patch_size=int(processor.get("temporal_patch_size", 2)),
            min_pixels=int(size.get("shortest_edge", 128 * 32 * 32)),
            max_pixels=int(size.get("longest_edge", 768 * 32 * 32)),
            frame_tokens=None
            if cap is False
            else int(processor.get("max_video_tokens") or FRAME_TOKENS),
            fixed_cap=bool(cap),
            placeholders=qwen_placeholders(config),
        )
    except (TypeError, ValueError) as error:
        raise ModelError(f"the configuration in {where} is broken: {error}") from error
    check_patches(geometry, config, where)
    return geometry
