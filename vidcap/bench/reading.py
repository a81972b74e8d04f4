"""Readers of video side by side: each samples a file evenly, at one size, and says what it took.

Every reader but vidcap's own is optional and imported where it is used.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from vidcap.settings import VideoSettings
from vidcap.video import load_frames

#: (height, width) of a signature: enough to tell a frame from its neighbours.
_SIGNATURE = (91, 161)

#: A frame is taken for the one that it resembles most among this many on either side.
_NEIGHBOURS = 3


@dataclass(frozen=True, slots=True)
class Request:
    """What every reader is asked for.

    Attributes:
        path: the file.
        count: frames, evenly over the whole file.
        height, width: of a frame.
        threads: decoding threads.
        rate: frames per second of the file.
    """

    path: str
    count: int
    height: int
    width: int
    threads: int
    rate: float


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader gave.

    Attributes:
        indices: number of each frame in the file, as the reader says or its times say.
        rgb: [n, height, width, 3].
    """

    indices: list[int]
    rgb: npt.NDArray


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader and the package that it needs beside those of vidcap."""

    read: Callable[[Request], Reading]
    package: str | None = None

    @property
    def is_installed(self) -> bool:
        """Whether its package is there."""
        return self.package is None or importlib.util.find_spec(self.package) is not None


def _vidcap(request: Request) -> Reading:
    settings = VideoSettings(fps=1000, max_frames=request.count)
    frames = load_frames(
        request.path,
        settings,
        lambda count, height, width: (request.height, request.width),
        threads=request.threads,
    )
    return Reading([round(time * request.rate) for time in frames.times_s], frames.rgb)


def _pyav(request: Request) -> Reading:
    """Everything decoded, in order; what is wanted kept."""
    kept = []
    with av.open(request.path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = request.threads
        indices = _evenly(request.count, stream.frames)
        wanted = set(indices)
        for index, frame in enumerate(container.decode(stream)):
            if index in wanted:
                small = frame.reformat(request.width, request.height, "rgb24")
                kept.append(small.to_ndarray())
    return Reading(indices, np.stack(kept))


def _torchcodec(request: Request, mode: str) -> Reading:
    decoders = importlib.import_module("torchcodec.decoders")
    transforms = importlib.import_module("torchcodec.transforms")
    decoder = decoders.VideoDecoder(
        request.path,
        seek_mode=mode,
        num_ffmpeg_threads=request.threads,
        transforms=[transforms.Resize(size=(request.height, request.width))],
    )
    indices = _evenly(request.count, decoder.metadata.num_frames)
    return Reading(indices, _channels_last(decoder.get_frames_at(indices).data))


def _qwen_vl_utils(request: Request, backend: str) -> Reading:
    os.environ["FORCE_QWENVL_VIDEO_READER"] = backend
    os.environ["TORCHCODEC_NUM_THREADS"] = str(request.threads)
    from qwen_vl_utils import fetch_video

    size = {"resized_height": request.height, "resized_width": request.width}
    wanted = {"video": request.path, "nframes": request.count, **size}
    video, facts = fetch_video(wanted, return_video_metadata=True)
    if facts["video_backend"] != backend:
        raise RuntimeError(f"qwen-vl-utils used {facts['video_backend']} instead of {backend}")
    return Reading([int(index) for index in facts["frames_indices"]], _channels_last(video))


READERS: dict[str, Reader] = {
    "vidcap": Reader(_vidcap),
    "PyAV, everything": Reader(_pyav),
    "torchcodec exact": Reader(partial(_torchcodec, mode="exact"), "torchcodec"),
    "torchcodec approximate": Reader(partial(_torchcodec, mode="approximate"), "torchcodec"),
    "qwen-vl-utils torchcodec": Reader(partial(_qwen_vl_utils, backend="torchcodec"), "torchcodec"),
    "qwen-vl-utils decord": Reader(partial(_qwen_vl_utils, backend="decord"), "decord"),
}


def peak_bytes() -> int:
    """The largest resident memory of this process so far; 0 where the system does not tell."""
    try:
        # Linux. What `getrusage` says there includes the process that started this one.
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    match = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def signatures_of_file(path: str) -> npt.NDArray[np.uint8]:
    """The signature of every frame of a clip, read in the plainest way: [n, values]."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        return np.stack([_signature(frame) for frame in container.decode(stream)])


def wrong_frames(reading: Reading, clip: npt.NDArray[np.uint8]) -> int:
    """How many frames are not those that the reader says they are.

    Args:
        reading: of a file that repeats a clip over and over.
        clip: the signatures of the clip.
    """
    wrong = 0
    for index, image in zip(reading.indices, reading.rgb, strict=True):
        pixels = np.ascontiguousarray(np.clip(image, 0, 255).astype(np.uint8))
        shown = _signature(av.VideoFrame.from_ndarray(pixels, format="rgb24"))
        near = [(index + step) % len(clip) for step in range(-_NEIGHBOURS, _NEIGHBOURS + 1)]
        distances = np.abs(clip[near].astype(np.int16) - shown).sum(axis=1)
        wrong += int(distances.argmin()) != _NEIGHBOURS
    return wrong


def _signature(frame: av.VideoFrame) -> npt.NDArray[np.uint8]:
    height, width = _SIGNATURE
    grey = frame.reformat(width, height, "gray", interpolation="AREA").to_ndarray()
    return grey.astype(np.uint8, copy=False).ravel()


def _evenly(count: int, total: int) -> list[int]:
    return [int(index) for index in np.linspace(0, total - 1, count).round()]


def _channels_last(video: Any) -> npt.NDArray:
    return video.permute(0, 2, 3, 1).numpy()
