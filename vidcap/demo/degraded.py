"""Clips as a model meets them: rendered, sampled, and with the errors of a lossy codec."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vidcap.demo.scenes import Scene, frame_times, render_frames

#: Share of clips that pass through H.264, and the rate factors drawn for them.
CODEC_SHARE, CODEC_CRF = 0.85, (18, 32)


def clip(scene: Scene, rng: np.random.Generator, codec: bool = True) -> NDArray[np.uint8]:
    """The sampled frames of a scene, an even number of them.

    Args:
        scene: what they show.
        rng: for what is left to chance.
        codec: send most clips through H.264; otherwise they only get noise of that kind, which
            needs no PyAV.
    """
    frames = render_frames(scene, frame_times(scene))
    if rng.random() < CODEC_SHARE:
        if codec:
            from vidcap.demo.clips import through_codec  # PyAV, which not every machine has

            frames = through_codec(frames, int(rng.integers(*CODEC_CRF, endpoint=True)))
        else:
            frames = compression_noise(frames, rng)
    if len(frames) % 2:
        frames = np.concatenate((frames, frames[-1:]))
    return frames


def compression_noise(frames: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Frames with errors like those of a lossy codec: blocks off by a little, colours smeared.

    Args:
        frames: uint8 [n, h, w, 3], h and w multiples of 4.
        rng: draws the strength and the errors.
    """
    n, h, w, _ = frames.shape
    strength = rng.uniform(0.5, 3.0)
    blocks = rng.normal(0.0, strength, (n, h // 4, w // 4, 1)).repeat(4, 1).repeat(4, 2)
    pairs = frames.reshape(n, h // 2, 2, w // 2, 2, 3).astype(np.float32)
    light = pairs.mean(axis=-1, keepdims=True)
    smeared = light + (pairs - light).mean(axis=(2, 4), keepdims=True)
    noisy = smeared.reshape(frames.shape) + blocks + rng.normal(0.0, strength, frames.shape)
    return np.clip(noisy + 0.5, 0, 255).astype(np.uint8)
