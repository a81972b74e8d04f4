"""Scenes as video: H.264 in memory for training, MP4 files for everybody else."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from vidcap.demo.language import caption
from vidcap.demo.scenes import (
    Scene,
    World,
    frame_times,
    render_frames,
    sample_scene,
    truth,
)
from vidcap.demo.world import DEMO_WORLD

#: Seeds up to this one are for whoever asks for clips; training draws only from far above.
LAST_SEED = 2**31 - 1

#: With its macroblock tree, x264 codes small frames a little differently from run to run.
_REPRODUCIBLE = {"x264-params": "mbtree=0"}
#: Frames rendered at once, so that long clips need no more memory than short ones.
_FRAMES_AT_ONCE = 32


def through_codec(frames: NDArray[np.uint8], crf: int) -> NDArray[np.uint8]:
    """The frames as they look after H.264 at a quality, coded in memory on one thread.

    Args:
        frames: uint8[n, h, w, 3], RGB, n at least 1, h and w even.
        crf: constant rate factor of x264, from 0 (best) to 51.

    Returns:
        As many frames of the same size, uint8[n, h, w, 3].
    """
    height, width = frames.shape[1:3]
    encoder = VideoCodecContext.create("libx264", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuv420p"
    encoder.time_base = Fraction(1, 2)
    encoder.thread_count = 1
    encoder.options = {"preset": "veryfast", "crf": str(crf), **_REPRODUCIBLE}
    decoder = VideoCodecContext.create("h264", "r")
    decoder.thread_count = 1
    packets = []
    for pts, rgb in enumerate(frames):
        frame = av.VideoFrame.from_ndarray(rgb, format="rgb24")
        frame.pts = pts
        packets += encoder.encode(frame)
    packets += encoder.encode(None)
    decoded = [frame for packet in packets for frame in decoder.decode(packet)]
    decoded += decoder.decode(None)
    # One converter for all frames: each frame's own would set up its tables again.
    convert = VideoReformatter().reformat
    return np.stack([convert(frame, format="rgb24").to_ndarray() for frame in decoded])


def write_mp4(scene: Scene, path: Path, fps: int = 8, crf: int = 23) -> None:
    """Render a scene over its duration into an MP4: H.264, yuv420p, square pixels, index first.

    Args:
        path: the file to write, replaced where it exists.
        fps: frames per second; the first frame shows time zero.
        crf: constant rate factor of x264.
    """
    width, height = scene.size
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=fps)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.sample_aspect_ratio = Fraction(1, 1)
        stream.codec_context.thread_count = 1
        stream.options = {"preset": "medium", "crf": str(crf), **_REPRODUCIBLE}
        times_s = frame_times(scene, fps)
        for first in range(0, len(times_s), _FRAMES_AT_ONCE):
            for rgb in render_frames(scene, times_s[first : first + _FRAMES_AT_ONCE]):
                container.mux(stream.encode(av.VideoFrame.from_ndarray(rgb, format="rgb24")))
        container.mux(stream.encode(None))


def write_dataset(directory: Path, count: int, seed: int, world: World = DEMO_WORLD) -> list[Path]:
    """Write ``count`` clips and what is true of them: ``clip_00000.mp4`` ... and ``truth.jsonl``.

    Clip k shows the scene of seed ``seed + k``. Each line of ``truth.jsonl`` is an object with
    ``file``, ``seed``, ``truth`` (see ``vidcap.demo.scenes.truth``) and ``caption``.

    Returns:
        The paths of the clips.

    Raises:
        ValueError: a seed outside the range that is open to users.
        OSError: the directory cannot be made or written.
    """
    if count < 0 or not 0 <= seed <= LAST_SEED + 1 - count:
        raise ValueError(f"{count} clips from seed {seed} leave the seeds 0 to {LAST_SEED}")
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    with (directory / "truth.jsonl").open("w", encoding="utf-8") as lines:
        for k in range(count):
            scene = sample_scene(seed + k, world)
            path = directory / f"clip_{k:05d}.mp4"
            write_mp4(scene, path)
            text = caption(scene, np.random.default_rng(scene.seed))
            line = {"file": path.name, "seed": scene.seed, "truth": truth(scene), "caption": text}
            lines.write(json.dumps(line) + "\n")
            paths.append(path)
    return paths
