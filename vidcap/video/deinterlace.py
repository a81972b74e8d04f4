"""Interlaced frames without combing.

FFmpeg's `estdif` rebuilds one of the two fields of a frame from the other, along the edges of the
picture. Better filters look at the frames before and after as well, which would have to be decoded
and kept for each sampled frame; what they gain in detail is lost again when the frame is scaled
down for a model.
"""

from __future__ import annotations

import av
import av.error
from av.filter import Graph

#: The filter looks a few rows and columns around; frames below this size are left as they are.
_LEAST_SIDE = 16


def deinterlaced(frame: av.VideoFrame) -> av.VideoFrame:
    """A frame whose rows all belong to one moment, in the colours that the given one declares.

    The frame itself, where it is not interlaced or the filter cannot read it.
    """
    if not frame.interlaced_frame or min(frame.width, frame.height) < _LEAST_SIDE:
        return frame
    try:
        result = _filtered(frame)
    except (av.error.FFmpegError, ValueError):
        return frame
    result.colorspace = frame.colorspace
    result.color_range = frame.color_range
    result.color_trc = frame.color_trc
    result.color_primaries = frame.color_primaries
    return result


def _filtered(frame: av.VideoFrame) -> av.VideoFrame:
    graph = Graph()
    graph.threads = 1
    source = graph.add_buffer(
        width=frame.width,
        height=frame.height,
        format=frame.format,
        time_base=frame.time_base,
    )
    fields = graph.add("estdif", "mode=frame:deint=all")
    sink = graph.add("buffersink")
    source.link_to(fields)
    fields.link_to(sink)
    graph.configure()
    graph.push(frame)
    # The filter holds a frame back until it knows that another follows, or that none does.
    graph.push(None)
    result = graph.pull()
    return result if isinstance(result, av.VideoFrame) else frame
