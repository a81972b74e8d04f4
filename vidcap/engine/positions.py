"""Position ids of prompts and tree nodes.

Two policies say where text starts after a video under M-RoPE:

``reference``
    one behind the largest id of the video, on all axes. This is how the authors of Qwen2-VL and
    Qwen2.5-VL released their models, what transformers 4 and vLLM compute, and what the weights
    were trained with.
``transformers``
    what the installed transformers release computes. Since 5.x that is
    ``start + max(height, width) / merge``, which ignores the temporal extent: on a long video the
    text gets ids that lie inside the video's.
"""

from __future__ import annotations

import torch
from torch import Tensor


def reference_positions(position_ids: Tensor, visual: Tensor) -> Tensor:
    """Shift text behind every visual span to one behind the span's largest id.

    Args:
        position_ids: Long[3, b, n] as transformers computes them.
        visual: bool[b, n] True at visual tokens.

    Returns:
        Long[3, b, n]. Spans shift cumulatively; a shift never moves text backwards.
    """
    shifted = position_ids.clone()
    for row in range(visual.shape[0]):
        for begin, end in _spans(visual[row]):
            if end >= shifted.shape[-1]:
                continue
            largest = shifted[:, row, begin:end].max()
            gap = largest + 1 - shifted[:, row, end].max()
            shifted[:, row, end:] += gap.clamp(min=0)
    return shifted


def _spans(flags: Tensor) -> list[tuple[int, int]]:
    """[begin, end) of every run of True in bool[n]."""
    padded = torch.nn.functional.pad(flags.to(torch.int8), (1, 1))
    edges = padded.diff()
    begins = (edges == 1).nonzero().flatten().tolist()
    ends = (edges == -1).nonzero().flatten().tolist()
    return list(zip(begins, ends, strict=True))


def text_positions(first: int, offsets: Tensor, planes: int) -> Tensor:
    """Ids of text tokens: `first` + `offsets` on every axis.

    Args:
        first: id of the token at offset 0.
        offsets: Long[b, n]; for tree nodes the committed length + depth.
        planes: 3 for M-RoPE, 1 for one-dimensional positions.

    Returns:
        Long[3, b, n] or Long[b, n].
    """
    ids = offsets + first
    return ids if planes == 1 else ids.expand(planes, *ids.shape)
