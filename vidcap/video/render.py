"""From a decoded frame to RGB pixels of the wanted size."""

from __future__ import annotations

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

from vidcap.video.deinterlace import deinterlaced
from vidcap.video.info import VideoInfo
from vidcap.video.orientation import Orientation
from vidcap.video.tonemap import HDR_TRANSFERS, tone_map

#: FFmpeg's number for a matrix that is not declared.
_UNDECLARED = 2


class FrameRenderer:
    """Scales decoded frames to one size, converts them to RGB and lays them upright.

    Bicubic, which averages over the whole footprint of a pixel when it shrinks. The conversion
    follows the matrix and range that the frame declares; undeclared YUV counts as BT.601 in limited
    range, as FFmpeg does it and with it the readers that the models were trained with. Interlaced
    frames are deinterlaced, and light levels beyond an ordinary screen are compressed.

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
        frame = deinterlaced(frame)
        if frame.color_trc in HDR_TRANSFERS:
            coded = self._scaled(frame, "rgb48le").to_ndarray().astype(np.uint16, copy=False)
            image = tone_map(coded, frame.color_trc, frame.color_primaries)
        else:
            image = self._scaled(frame, "rgb24").to_ndarray().view(np.uint8)
        out[:] = self._orientation.apply(image)

    def _scaled(self, frame: av.VideoFrame, pixels: str) -> av.VideoFrame:
        hdr_undeclared = frame.color_trc in HDR_TRANSFERS and frame.colorspace == _UNDECLARED
        return self._reformatter.reformat(
            frame,
            width=self._stored_width,
            height=self._stored_height,
            format=pixels,
            src_colorspace=Colorspace.BT2020 if hdr_undeclared else None,
            interpolation=Interpolation.BICUBIC | Interpolation.ACCURATE_RND,
            dst_color_range=ColorRange.JPEG,
            threads=1,
        )


def appearance_warnings(info: VideoInfo) -> tuple[str, ...]:
    """What has to be said about how a video is shown, nothing where that is as it was filmed."""
    if info.hdr is None:
        return ()
    return (f"HDR video ({info.hdr}) is fitted to an ordinary screen: colours are approximate",)
