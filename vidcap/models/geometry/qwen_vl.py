"""Sizes and token counts of Qwen2-VL and Qwen2.5-VL.

A frame is resized so that both sides are whole numbers of merged patches and its area lies between
two bounds. The bounds are those of the checkpoint's video processor. On top of them come the limits
of the authors' own qwen-vl-utils, because the checkpoints on the hub allow frames of 16,384 tokens:
at most 768 tokens for a pair of frames unless the user asks for more, and a budget for the whole
video of 0.9 times the model's context.
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

#: Share of `max_video_tokens` that a video may fill; the rest is left to text.
VIDEO_SHARE = 0.9

#: ``MODEL_SEQ_LEN`` of qwen-vl-utils: the context that a budget is derived from at most.
CONTEXT_TOKENS = 128_000


@dataclass(frozen=True, slots=True)
class QwenVLGeometry(PatchGeometry):
    """Geometry of one Qwen2-VL or Qwen2.5-VL checkpoint; the bounds are on the area of a frame.

    Attributes:
        max_video_tokens: tokens that the budget for a whole video is derived from; None switches
            the budget off.
        frame_tokens: most visual tokens of a frame where the user sets no cap of his own; None for
            what the checkpoint allows.
    """

    max_video_tokens: int | None
    frame_tokens: int | None = None

    def frame_size(
        self, n_frames: int, height: int, width: int, max_pixels: int | None = None
    ) -> tuple[int, int]:
        """See :meth:`Geometry.frame_size`.

        The checkpoint's processor, given frames of this size, keeps them as they are, unless
        `max_pixels` is below the checkpoint's own `min_pixels`: the user's cap wins here.
        """
        upper = self.pixel_cap(n_frames)
        if max_pixels is not None:
            upper = min(upper, max_pixels)
        elif self.frame_tokens is not None:
            upper = max(min(upper, self.frame_tokens * self.factor**2), self._least())
        lower = min(self.min_pixels, upper)
        return _settled_size(height, width, self.factor, lower, upper)

    def pixel_cap(self, n_frames: int) -> int:
        """The largest area of one frame in a video of `n_frames`, in pixels."""
        if self.max_video_tokens is None:
            return self.max_pixels
        budget = int(self.max_video_tokens * self.factor * self.factor * VIDEO_SHARE)
        share = budget * self.temporal_patch_size // n_frames
        return max(min(self.max_pixels, share), self._least())

    def _least(self) -> int:
        # The slack above min_pixels leaves room for rounding to whole tokens between the bounds.
        return int(self.min_pixels * 1.05)


def qwen_vl_geometry(
    config: Mapping[str, Any], processor: Mapping[str, Any], where: str
) -> QwenVLGeometry:
    """The geometry of a Qwen2-VL or Qwen2.5-VL checkpoint.

    Args:
        config: the content of its ``config.json``.
        processor: the settings of its video processor.
        where: its folder or name, for messages.

    Raises:
        ModelError: values are broken, or the processor and the model disagree.
    """
    try:
        lower, upper = _pixel_bounds(processor)
        geometry = QwenVLGeometry(
            family=str(config["model_type"]),
            patch_size=int(processor.get("patch_size", 14)),
            merge_size=int(processor.get("merge_size", 2)),
            temporal_patch_size=int(processor.get("temporal_patch_size", 2)),
            min_pixels=lower,
            max_pixels=upper,
            max_video_tokens=_video_token_budget(config, processor),
            frame_tokens=FRAME_TOKENS if processor.get("cap_pixels_per_frame") is None else None,
            placeholders=qwen_placeholders(config),
        )
    except (TypeError, ValueError) as error:
        raise ModelError(f"the configuration in {where} is broken: {error}") from error
    check_patches(geometry, config, where)
    return geometry


def _pixel_bounds(processor: Mapping[str, Any]) -> tuple[int, int]:
    """Bounds on the area of a frame; the two spellings of the key as transformers reads them."""
    size = processor.get("size")
    size = size if isinstance(size, Mapping) else {}
    lower = size.get("shortest_edge", size.get("min_pixels", 128 * 28 * 28))
    upper = size.get("longest_edge", size.get("max_pixels", 768 * 28 * 28))
    if processor.get("min_pixels") is not None:
        lower = processor["min_pixels"]
    if processor.get("max_pixels") is not None:
        upper = processor["max_pixels"]
    return int(lower), int(upper)


def _video_token_budget(config: Mapping[str, Any], processor: Mapping[str, Any]) -> int | None:
    # A checkpoint that says nothing gets the budget too: its authors' own tool applies it, and
    # without it a long video in high resolution outgrows the context of the model.
    if processor.get("cap_pixels_per_frame") is False:
        return None
    if processor.get("max_video_tokens"):
        return int(processor["max_video_tokens"])
    text = config.get("text_config") or {}
    context = text.get("max_position_embeddings", config.get("max_position_embeddings"))
    return min(CONTEXT_TOKENS, int(context or CONTEXT_TOKENS))


def _settled_size(
    height: int, width: int, factor: int, min_pixels: int, max_pixels: int
) -> tuple[int, int]:
    """The size at which fitting again changes nothing.

    Fitting once is enough for ordinary frames. With extreme aspect ratios one side is clamped to
    a single token and the area stays over the bound, so that the next fit would shrink the other
    side further; where the bounds are too close for whole tokens the fits alternate, and the
    smallest size of the cycle is taken.
    """
    seen: list[tuple[int, int]] = []
    size = (height, width)
    while size not in seen:
        if min(size) < 1 or max(size) > MAX_ASPECT_RATIO * min(size):
            raise too_narrow(height, width)
        seen.append(size)
        size = _fit_once(*size, factor, min_pixels, max_pixels)
    return min(seen[seen.index(size) :], key=lambda item: (item[0] * item[1], item))


def _fit_once(
    height: int, width: int, factor: int, min_pixels: int, max_pixels: int
) -> tuple[int, int]:
    """The sides rounded to whole tokens, scaled with the aspect ratio kept if out of bounds."""
    area = round(height / factor) * round(width / factor) * factor * factor
    if area > max_pixels:
        scale = math.sqrt((height * width) / max_pixels)
        return (
            max(factor, math.floor(height / scale / factor) * factor),
            max(factor, math.floor(width / scale / factor) * factor),
        )
    if area < min_pixels:
        scale = math.sqrt(min_pixels / (height * width))
        return (
            math.ceil(height * scale / factor) * factor,
            math.ceil(width * scale / factor) * factor,
        )
    return round(height / factor) * factor, round(width / factor) * factor
