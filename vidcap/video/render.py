"""From a decoded frame to RGB pixels of the wanted size."""

from __future__ import annotations

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter

from vidcap.video.orientation import Orientation

#: Transfer functions whose light levels do not fit an ordinary screen.
_HDR_TRANSFERS = {16: "PQ", 18: "HLG"}


class FrameRenderer:
    """Scales decoded frames to one size, converts them to RGB and lays them upright.

    Bicubic, which averages over the whole footprint of a pixel when it shrinks. The conversion
    follows the matrix and range that the frame declares; undeclared YUV counts as BT.601 in limited
    range, as FFmpeg does it and with it the readers that the models were trained with.

    Args:
        height, width: of the result, as displayed.
        orientation: how the stored frames are laid out on the screen.
    """

    def __init__(self, height: int, width: int, orientation: Orientation):
        self._orientation = orientation
        self._stored_height, self._stored_width = orientation.size(height, width)
        self._reformatter = VideoReformatter()

    def render(self, frame: av.VideoFrame, out: npt.NDArray[np.uint8]) -> None:
        """Writes the frame into `out`, uint8 [height, width, 3]."""
        scaled = self._reformatter.reformat(
            frame,
            width=self._stored_width,
            height=self._stored_height,
            format="rgb24",
            interpolation=Interpolation.BICUBIC | Interpolation.ACCURATE_RND,
            dst_color_range=ColorRange.JPEG,
            threads=1,
        )
        out[:] = self._orientation.apply(scaled.to_ndarray().view(np.uint8))


def colour_warning(frame: av.VideoFrame) -> str | None:
    """What has to be said about the colours of a frame, None if they are right."""
    name = _HDR_TRANSFERS.get(frame.color_trc)
    if name is None:
        return None
    return f"HDR video ({name}) is read without tone mapping: colours are approximate"
