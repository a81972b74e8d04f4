"""Sizes and token counts of LLaVA-OneVision (arXiv 2408.03326, section 3.2).

Every frame is resized to the one square that the SigLIP tower takes and gives a square of features,
which is halved on both sides by bilinear pooling: 384 pixels in patches of 14 are 27 x 27 features
and 14 x 14 visual tokens. One learned token closes the video. It uses the video's placeholder but
shows nothing, so it counts as text here and is never pruned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vidcap.errors import InputError, ModelError
from vidcap.models.geometry.base import Placeholders


@dataclass(frozen=True, slots=True)
class LlavaOnevisionGeometry:
    """Geometry of one LLaVA-OneVision checkpoint.

    Attributes:
        image_size: side of a frame in pixels.
        patch_size: side of a patch in pixels.
    """

    family: str
    image_size: int
    patch_size: int
    placeholders: Placeholders

    @property
    def side(self) -> int:
        """Visual tokens of a frame along each side."""
        return -(-(self.image_size // self.patch_size) // 2)

    @property
    def patch_pixels(self) -> int:
        """See :attr:`Geometry.patch_pixels`."""
        return self.patch_size**2

    @property
    def token_pixels(self) -> int:
        """See :attr:`Geometry.token_pixels`."""
        return self.image_size**2 // self.side**2

    def frame_size(
        self, n_frames: int, height: int, width: int, max_pixels: int | None = None
    ) -> tuple[int, int]:
        """See :meth:`Geometry.frame_size`; always the same size."""
        if max_pixels is not None and max_pixels < self.image_size**2:
            raise InputError(
                f"this model takes frames of {self.image_size}x{self.image_size} pixels only, "
                f"{max_pixels} are too few",
                hint="leave --max-pixels out, and use --max-frames for a shorter prompt",
            )
        return self.image_size, self.image_size

    def visual_tokens(self, n_frames: int, height: int, width: int) -> int:
        """See :meth:`Geometry.visual_tokens`; ValueError for another frame size."""
        if (height, width) != (self.image_size, self.image_size):
            raise ValueError(f"{width}x{height} is not {self.image_size}x{self.image_size}")
        return n_frames * self.side**2

    def pad_frames(self, n_frames: int) -> int:
        """See :meth:`Geometry.pad_frames`; frames are not grouped."""
        return n_frames

    def seconds_per_grid(self, fps: float) -> float:
        """See :meth:`Geometry.seconds_per_grid`."""
        return 1 / fps


def llava_onevision_geometry(
    config: Mapping[str, Any], processor: Mapping[str, Any], where: str
) -> LlavaOnevisionGeometry:
    """The geometry of a LLaVA-OneVision checkpoint.

    Args:
        config: the content of its ``config.json``.
        processor: the settings of its video processor.
        where: its folder or name, for messages.

    Raises:
        ModelError: values are broken, the processor and the model disagree, or the tower's features
            form no square.
    """
    vision = config.get("vision_config") or {}
    size = processor.get("size")
    size = size if isinstance(size, Mapping) else {}
    try:
        geometry = LlavaOnevisionGeometry(
            family=str(config["model_type"]),
            image_size=int(vision.get("image_size", 384)),
            patch_size=int(vision.get("patch_size", 14)),
            placeholders=Placeholders(
                video_token="<video>",
                video_token_id=int(_either(config, "video_token", 151647)),
                image_token="<image>",
                image_token_id=int(_either(config, "image_token", 151646)),
            ),
        )
        frame = int(size.get("height", 384)), int(size.get("width", 384))
    except (TypeError, ValueError) as error:
        raise ModelError(f"the configuration in {where} is broken: {error}") from error
    _check(geometry, frame, config, where)
    return geometry


def _either(config: Mapping[str, Any], name: str, default: int) -> Any:
    return config.get(f"{name}_index", config.get(f"{name}_id", default))


def _check(
    geometry: LlavaOnevisionGeometry,
    frame: tuple[int, int],
    config: Mapping[str, Any],
    where: str,
) -> None:
    if not 0 < geometry.patch_size <= geometry.image_size:
        raise ModelError(
            f"the vision tower in {where} cuts {geometry.image_size} pixels into patches of "
            f"{geometry.patch_size}"
        )
    if frame != (geometry.image_size, geometry.image_size):
        raise ModelError(
            f"the video processor in {where} makes frames of {frame[1]}x{frame[0]}, "
            f"the model takes {geometry.image_size}x{geometry.image_size}"
        )
    strategy = config.get("vision_feature_select_strategy", "full")
    if strategy != "full":
        raise ModelError(
            f"{where} selects '{strategy}' features of its vision tower",
            hint="supported are towers without a class token (SigLIP), which use 'full'",
        )
