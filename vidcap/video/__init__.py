"""Video files in, sampled RGB frames with their true times out. PyAV and numpy only."""

from __future__ import annotations

from vidcap.video.decode import load_frames
from vidcap.video.info import DecodingInterruptedError, Frames, FrameSize, VideoInfo
from vidcap.video.probe import probe
from vidcap.video.sampling import SamplingPlan, plan_sampling

__all__ = [
    "DecodingInterruptedError",
    "FrameSize",
    "Frames",
    "SamplingPlan",
    "VideoInfo",
    "load_frames",
    "plan_sampling",
    "probe",
]
