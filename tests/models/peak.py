"""Prints how much memory a run takes at its fullest moment: ``python -m tests.models.peak ...``.

Resident bytes above those of a process that has done the same with a tiny pair. glibc keeps freed
pieces below a threshold for later ones; ``MALLOC_MMAP_THRESHOLD_`` in the environment lowers it, so
that what is freed goes back at once and what is measured is what is in use.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np

from vidcap.captioner import Captioner
from vidcap.settings import GenerationSettings, ModelSettings, VideoSettings, method_settings
from vidcap.video import Frames, VideoInfo

SIDE = 448
TOKENS = 16
QUESTION = "what moves?"
INFO = VideoInfo(
    path="clip.mp4",
    container="mp4",
    codec="h264",
    pixel_format="yuv420p",
    stream_index=0,
    duration_s=1.0,
    width=SIDE,
    height=SIDE,
    coded_width=SIDE,
    coded_height=SIDE,
    rotation=0,
    mirrored=False,
    average_fps=2.0,
    frame_count=None,
    interlaced=False,
)


def run(settings: ModelSettings, method: str, count: int) -> None:
    """Load a pair and answer a question about a video of noise."""
    generation = GenerationSettings(max_tokens=TOKENS)
    captioner = Captioner(settings, VideoSettings(), generation, method_settings(method))
    height, width = captioner.geometry.frame_size(count, SIDE, SIDE)
    captioner.load()
    rgb = np.random.default_rng(0).integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    frames = Frames(rgb, np.arange(count) / 2, INFO, count / 2, 0, ())
    with captioner.open_frames("clip.mp4", frames) as session:
        record = session.answer(QUESTION)
    assert record.tokens is not None
    assert record.tokens.generated > 0


def resident() -> int:
    """Bytes that this process has in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Parse, warm up on the tiny pair, measure the other one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tiny")
    parser.add_argument("pair")
    parser.add_argument("count", type=int)
    parser.add_argument("dtype")
    parser.add_argument("quantize")
    given = parser.parse_args()
    settings = ModelSettings(
        pair=given.tiny, device="cpu", dtype=given.dtype, threads=1, quantize=given.quantize
    )
    method = "sd" if "+" in given.pair else "plain"
    run(settings, method, 2)
    gc.collect()
    before = resident()
    run(replace(settings, pair=given.pair), method, given.count)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)


if __name__ == "__main__":
    main()
