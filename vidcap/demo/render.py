"""Scenes to pixels.

Rendering is plain numpy: training draws tens of thousands of clips, so one has to cost
milliseconds. Only the boxes around objects are drawn frame by frame.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vidcap.demo.backgrounds import draw_background
from vidcap.demo.objects import Scene
from vidcap.demo.patches import patches_of


def render_frames(scene: Scene, times_s: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The scene at each time: uint8[n, height, width, 3], RGB.

    Args:
        scene: what to draw; later objects lie on top of earlier ones.
        times_s: seconds from the start of the clip, float64[n].
    """
    width, height = scene.size
    clean = draw_background(scene.background, width, height)
    frames = np.empty((len(times_s), height, width, 3), np.uint8)
    frames[:] = _to_bytes(clean)
    canvas = clean.copy()
    for frame, patches in zip(frames, patches_of(scene, times_s), strict=True):
        boxes = [(patch.rows, patch.columns) for patch in patches if patch is not None]
        for patch in patches:
            if patch is not None:
                area = canvas[patch.rows, patch.columns]
                area += patch.alpha[:, :, None] * (patch.rgb - area)
        for box in boxes:
            frame[box] = _to_bytes(canvas[box])
        for box in boxes:
            canvas[box] = clean[box]
    return frames


def _to_bytes(plane: NDArray[np.float32]) -> NDArray[np.uint8]:
    return (plane + np.float32(0.5)).astype(np.uint8)
