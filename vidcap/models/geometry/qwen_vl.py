"""Sizes and token counts of Qwen2-VL and Qwen2.5-VL.

Frames are cut into patches; `merge_size` x `merge_size` patches of `temporal_patch_size` frames
become one visual token (Qwen2-VL, arXiv 2409.12191, section 2.1). A frame is resized so that both
sides are whole numbers of merged patches and its area lies between two bounds. The bounds are those
of the checkpoint's video processor; the budget for a whole video is the one that the authors' own
qwen-vl-utils applies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vidcap.errors import InputError, ModelError
from vidcap.models.geometry.base import Placeholders

#: The processors refuse frames in which one side is more than this many times the other.
MAX_ASPECT_RATIO = 200

#: Share of `max_video_tokens` that a video may fill; the rest is left to text.
VIDEO_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class QwenVLGeometry:
    """Geometry of one Qwen2-VL or Qwen2.5-VL checkpoint.

    Attributes:
        patch_size: side of a patch in pixels.
        merge_size: patches per visual token along each side.
        temporal_patch_size: frames per step of the temporal grid.
        min_pixels, max_pixels: bounds on the area of a resized frame.
        max_video_tokens: tokens that the budget for a whole video is derived from; None switches
            the budget off.
    """

    family: str
    patch_size: int
    merge_size: int
    temporal_patch_size: int
    min_pixels: int
    max_pixels: int
    max_video_tokens: int | None
    placeholders: Placeholders

    @property
    def factor(self) -> int:
        """Side of one visual token in pixels."""
        return self.patch_size * self.merge_size

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
        lower = min(self.min_pixels, upper)
        return _settled_size(height, width, self.factor, lower, upper)

    def pixel_cap(self, n_frames: int) -> int:
        """The largest area of one frame in a video of `n_frames`, in pixels."""
        if self.max_video_tokens is None:
            return self.max_pixels
        budget = int(self.max_video_tokens * self.factor * self.factor * VIDEO_SHARE)
        share = budget * self.temporal_patch_size // n_frames
        # The slack above min_pixels leaves room for rounding to whole tokens between the bounds.
        return max(min(self.max_pixels, share), int(self.min_pixels * 1.05))

    def grid(self, n_frames: int, height: int, width: int) -> tuple[int, int, int]:
        """The patch grid (time, height, width) of a video, as in ``video_grid_thw``.

        Raises:
            ValueError: the frames do not have a size that `frame_size` returns.
        """
        if height < 1 or width < 1 or height % self.factor or width % self.factor:
            raise ValueError(f"{width}x{height} is not a multiple of {self.factor} pixels")
        steps = self.pad_frames(n_frames) // self.temporal_patch_size
        return steps, height // self.patch_size, width // self.patch_size

    def visual_tokens(self, n_frames: int, height: int, width: int) -> int:
        """See :meth:`Geometry.visual_tokens`; ValueError for another frame size."""
        return math.prod(self.grid(n_frames, height, width)) // self.merge_size**2

    def pad_frames(self, n_frames: int) -> int:
        """See :meth:`Geometry.pad_frames`."""
        return -(-n_frames // self.temporal_patch_size) * self.temporal_patch_size

    def seconds_per_grid(self, fps: float) -> float:
        """See :meth:`Geometry.seconds_per_grid`; the ``second_per_grid_ts`` of Qwen2.5-VL."""
        return self.temporal_patch_size / fps


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
            max_video_tokens=_video_token_budget(processor),
            placeholders=_placeholders(config),
        )
    except (TypeError, ValueError) as error:
        raise ModelError(f"the configuration in {where} is broken: {error}") from error
    _check_positive(geometry, where)
    _check_against_model(geometry, config, where)
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


def _video_token_budget(processor: Mapping[str, Any]) -> int | None:
    # A checkpoint that says nothing gets the budget too: its authors' own tool applies it, and
    # without it a long video in high resolution outgrows the context of the model.
    if processor.get("cap_pixels_per_frame") is False:
        return None
    return int(processor.get("max_video_tokens") or 128_000)


def _placeholders(config: Mapping[str, Any]) -> Placeholders:
    return Placeholders(
        video_token="<|video_pad|>",
        video_token_id=int(config.get("video_token_id", 151656)),
        image_token="<|image_pad|>",
        image_token_id=int(config.get("image_token_id", 151655)),
        vision_start_token="<|vision_start|>",
        vision_start_token_id=int(config.get("vision_start_token_id", 151652)),
        vision_end_token="<|vision_end|>",
        vision_end_token_id=int(config.get("vision_end_token_id", 151653)),
    )


def _check_positive(geometry: QwenVLGeometry, where: str) -> None:
    for name in ("patch_size", "merge_size", "temporal_patch_size", "min_pixels", "max_pixels"):
        value = getattr(geometry, name)
        if value < 1:
            raise ModelError(f"the video processor in {where} has {name} {value}")


def _check_against_model(geometry: QwenVLGeometry, config: Mapping[str, Any], where: str) -> None:
    vision = config.get("vision_config") or {}
    for ours, theirs in (
        ("patch_size", "patch_size"),
        ("merge_size", "spatial_merge_size"),
        ("temporal_patch_size", "temporal_patch_size"),
    ):
        wanted = vision.get(theirs)
        wanted = wanted[0] if isinstance(wanted, list) and wanted else wanted
        if wanted is not None and wanted != getattr(geometry, ours):
            raise ModelError(
                f"the video processor in {where} has {ours} {getattr(geometry, ours)}, "
                f"the model {wanted}"
            )


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
            raise InputError(
                f"frame too narrow ({width}x{height}): one side may be at most "
                f"{MAX_ASPECT_RATIO} times the other"
            )
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
