"""Video files in, sampled RGB frames with their true times out. PyAV and numpy only."""

from __future__ import annotations

from vidcap.video.decode import load_frames
from vidcap.video.info import DecodingInterruptedError, Frames, FrameSize, VideoInfo
from vidcap.video.probe import check_video, probe
from vidcap.video.render import appearance_warnings
from vidcap.video.sampling import SamplingPlan, plan_sampling
from vidcap.video.source import show_decoder_log
from vidcap.video.windows import Window, load_windows, plan_windows

__all__ = [
    "DecodingInterruptedError",
    "FrameSize",
    "Frames",
    "SamplingPlan",
    "VideoInfo",
    "Window",
    "appearance_warnings",
    "check_video",
    "load_frames",
    "load_windows",
    "plan_sampling",
    "plan_windows",
    "probe",
    "show_decoder_log",
]
