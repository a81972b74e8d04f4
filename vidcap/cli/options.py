"""Every option, declared once: name, help, environment variable, default.

Commands take the groups that stand here together, each declared in the module of its own kind; the
defaults are those of :mod:`vidcap.settings`. Options of one command only stand beside it.
"""

from __future__ import annotations

from functools import partial

from vidcap.cli.binding import option
from vidcap.cli.generation_options import (
    GenerationOptions,
    LengthOptions,
    PromptOptions,
    SamplingOptions,
)
from vidcap.cli.message_options import FactsFormatOptions, MessageOptions, ReportOptions
from vidcap.cli.model_options import ComputeOptions, HubOptions, PairOptions, model_settings
from vidcap.cli.speculation_options import PartOptions, SpeculationOptions
from vidcap.cli.video_options import VideoOptions, WindowOptions

__all__ = [
    "ComputeOptions",
    "FactsFormatOptions",
    "GenerationOptions",
    "HubOptions",
    "LengthOptions",
    "MessageOptions",
    "PairOptions",
    "PartOptions",
    "PromptOptions",
    "ReportOptions",
    "SamplingOptions",
    "SpeculationOptions",
    "VideoOptions",
    "WindowOptions",
    "bench_option",
    "demo_option",
    "model_settings",
]

demo_option = partial(option, panel="Clip")
bench_option = partial(option, panel="Bench")
