"""What the Qwen families share: frames cut into patches, patches merged into visual tokens.

`merge_size` x `merge_size` patches of `temporal_patch_size` frames become one visual token
(Qwen2-VL, arXiv 2409.12191, section 2.1).
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

#: Most visual tokens of one frame pair where nobody asks for more: ``VIDEO_MAX_TOKEN_NUM`` of
#: qwen-vl-utils, the authors' own tool.
FRAME_TOKENS = 768


@dataclass(frozen=True, slots=True)
class PatchGeometry:
    """Sizes of patches.

    Attributes:
        patch_size: side of a patch in pixels.
        merge_size: patches per visual token along each side.
        temporal_patch_size: frames per step of the temporal grid.
        min_pixels, max_pixels: the checkpoint's bounds on an area in pixels; each family says of
            what.
    """

    family: str
    patch_size: int
    merge_size: int
    temporal_patch_size: int
    min_pixels: int
    max_pixels: int
    placeholders: Placeholders

    @property
    def factor(self) -> int:
        """Side of one visual token in pixels."""
        return self.patch_size * self.merge_size

    @property
    def patch_pixels(self) -> int:
        """See :attr:`Geometry.patch_pixels`."""
        return self.patch_size**2 * self.temporal_patch_size

    @property
    def token_pixels(self) -> int:
        """See :attr:`Geometry.token_pixels`."""
        return self.patch_pixels * self.merge_size**2

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


def qwen_placeholders(config: Mapping[str, Any]) -> Placeholders:
    """The visual tokens of a Qwen checkpoint from its ``config.json``."""
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


def check_patches(geometry: PatchGeometry, config: Mapping[str, Any], where: str) -> None:
    """Make sure that sizes are positive and that processor and model agree on them.

    Raises:
        ModelError: they do not.
    """
    for name in ("patch_size", "merge_size", "temporal_patch_size", "min_pixels", "max_pixels"):
        value = getattr(geometry, name)
        if value < 1:
            raise ModelError(f"the video processor in {where} has {name} {value}")
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


def too_narrow(height: int, width: int) -> InputError:
    """The error for a frame with an aspect ratio that the processors refuse."""
    return InputError(
        f"frame too narrow ({width}x{height}): one side may be at most "
        f"{MAX_ASPECT_RATIO} times the other"
    )
