"""What every model family has to say about sizes and token counts, without torch.

The video reader needs the frame size before torch is imported, and a plan of a run needs the number
of visual tokens without loading weights. Each family implements :class:`Geometry`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Placeholders:
    """The special tokens that stand for visual input in a prompt, as text and as ids.

    Those around visual input are None in families that have no such tokens.
    """

    video_token: str
    video_token_id: int
    image_token: str
    image_token_id: int
    vision_start_token: str | None = None
    vision_start_token_id: int | None = None
    vision_end_token: str | None = None
    vision_end_token_id: int | None = None


class Geometry(Protocol):
    """The torch-free half of a model family."""

    @property
    def family(self) -> str:
        """The ``model_type`` of the checkpoint."""

    @property
    def placeholders(self) -> Placeholders:
        """The tokens that the processor repeats once per visual token, and those around them."""

    @property
    def patch_pixels(self) -> int:
        """Pixels, of one frame or several, that the vision tower sees as one patch."""

    @property
    def token_pixels(self) -> int:
        """Pixels, of one frame or several, per visual token."""

    def frame_size(
        self, n_frames: int, height: int, width: int, max_pixels: int | None = None
    ) -> tuple[int, int]:
        """The (height, width) in pixels to which the frames of a video have to be resized.

        Args:
            n_frames: number of sampled frames, before padding.
            height, width: size of a frame as displayed.
            max_pixels: the user's own cap on the pixels of a frame, None for the model's.

        Raises:
            InputError: no size fits: the frame is too narrow, or the model knows one size only.
        """

    def visual_tokens(self, n_frames: int, height: int, width: int) -> int:
        """Visual tokens in the prompt for frames that already have a size of `frame_size`."""

    def pad_frames(self, n_frames: int) -> int:
        """Number of frames after padding to whole temporal patches."""

    def seconds_per_grid(self, fps: float) -> float:
        """Seconds of video that one step of the temporal grid covers at `fps` sampled frames/s."""
