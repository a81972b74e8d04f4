"""Runs with figures that are easy to check by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vidcap.bench.results import ArmRun

_RUN = ArmRun(
    key="k",
    clip="a",
    arm="plain",
    prompt="Describe.",
    text="A red circle.",
    finish_reason="stop",
    tokens=(5, 6, 7, 8, 9),
    visual_tokens=100,
    draft_visual_tokens=None,
    rounds=4,
    drafted=0,
    accepted=0,
    draft_calls=0,
    total_s=2.0,
    ttft_s=1.0,
    prefill_s=0.5,
    decode_s=1.0,
)


def make_run(**values: Any) -> ArmRun:
    """Plain decoding of five tokens, with some values changed."""
    return replace(_RUN, **values)
