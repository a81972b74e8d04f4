"""From decoded frames to what each model of a pair takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vidcap.models.protocol import VideoInputs, VideoModel
    from vidcap.video import Frames


def model_fps(frames: Frames, asked_fps: float) -> float:
    """Frames per second that the model is told.

    The mean spacing of the sampled frames, except where they sit on the asked grid as closely as
    the video's own frames allow: then it is the asked rate, because the temporal position ids are
    cut to whole numbers and a spacing of 0.4999 s would shift every one of them.
    """
    measured = frames.sampled_fps
    if measured is None:
        return asked_fps
    steps = len(frames.times_s) - 1
    own_spacing_s = 1 / frames.info.average_fps if frames.info.average_fps else 0.0
    if abs(steps / measured - steps / asked_fps) <= own_spacing_s:
        return asked_fps
    return measured


def preprocess(models: Sequence[VideoModel], frames: Frames, asked_fps: float) -> list[VideoInputs]:
    """Inputs per model, in the same order; models that want the same share them.

    Args:
        models: at least one.
        frames: at the size that the first model's geometry gave.
        asked_fps: frames per second that were asked for.
    """
    fps, start_s = model_fps(frames, asked_fps), float(frames.times_s[0])
    inputs = [models[0].prepare(frames.rgb, fps, start_s)]
    for model in models[1:]:
        same = model.preprocessing == models[0].preprocessing
        inputs.append(inputs[0] if same else model.prepare(frames.rgb, fps, start_s))
    return inputs
