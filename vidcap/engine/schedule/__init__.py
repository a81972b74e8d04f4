"""Who runs when."""

from vidcap.engine.prompt import PrefilledPrompt, PrefillJob
from vidcap.engine.schedule.lane import InlineLane, Lane, ThreadLane, ThreadPace, open_lane
from vidcap.engine.schedule.opening import OpenedVideo
from vidcap.engine.schedule.parallel import parallel_start
from vidcap.engine.schedule.sequential import sequential_prefill

__all__ = [
    "InlineLane",
    "Lane",
    "OpenedVideo",
    "PrefillJob",
    "PrefilledPrompt",
    "ThreadLane",
    "ThreadPace",
    "open_lane",
    "parallel_start",
    "sequential_prefill",
]
