"""Clips made on the spot, and a plain sequential reading of them to compare with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import ColorRange, Interpolation


def picture(index: int, height: int, width: int) -> np.ndarray:
    """A picture that differs from its neighbours all over and has no symmetry."""
    rows, columns = np.mgrid[0:height, 0:width]
    image = np.empty((height, width, 3), np.uint8)
    image[..., 0] = (columns * 3 + index * 11) % 256
    image[..., 1] = (rows * 5 + index * 7) % 256
    image[..., 2] = (rows // 8 + columns // 8 + index) % 2 * 200
    image[: height // 3, : width // 4] = (255, 255 - index % 200, 40)
    return image


def calm_picture(index: int, height: int, width: int) -> np.ndarray:
    """Noise at rest with a bar that moves: almost everything is predicted from earlier frames."""
    image = np.random.default_rng(0).integers(0, 128, (height, width, 3), np.uint8)
    left = index * 2 % width
    image[:, left : left + 10] += 90
    image[:4] = index % 256
    return image


@dataclass
class ClipMaker:
    """Writes small videos into one folder."""

    folder: Path

    def __call__(
        self,
        name: str,
        codec: str = "libx264",
        *,
        frames: int = 60,
        size: tuple[int, int] = (128, 96),
        fps: float | Fraction = 30,
        pixels: str = "yuv420p",
        stamps: Sequence[int] | None = None,
        time_base: Fraction | None = None,
        gop: int = 12,
        rotation: float | None = None,
        mirror: bool = False,
        sample_aspect: Fraction | None = None,
        draw: Callable[[int, int, int], np.ndarray] = picture,
        **codec_options: str,
    ) -> Path:
        """A clip of `frames` pictures; `stamps` are their PTS in `time_base`."""
        path = self.folder / name
        rate = Fraction(fps).limit_denominator(100_000)
        with av.open(str(path), "w") as container:
            options = {"x265-params": "log-level=none"} if codec == "libx265" else {}
            stream = container.add_stream(codec, rate=rate, options={**options, **codec_options})
            stream.width, stream.height = size
            stream.pix_fmt = pixels
            stream.codec_context.gop_size = gop
            if time_base is not None:
                stream.codec_context.time_base = time_base
            if sample_aspect is not None:
                stream.codec_context.sample_aspect_ratio = sample_aspect
            if rotation is not None or mirror:
                stream.set_display_rotation(rotation or 0, hflip=mirror)
            for index in range(frames):
                image = draw(index, size[1], size[0])
                frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format=pixels)
                frame.pts = index if stamps is None else stamps[index]
                frame.time_base = time_base or 1 / rate
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
        return path

    def sound(self, name: str, codec: str = "aac", seconds: float = 1.0) -> Path:
        """A file with a tone and no picture."""
        path = self.folder / name
        with av.open(str(path), "w") as container:
            add_tone(container, codec, seconds)
        return path


def add_tone(container: Any, codec: str, seconds: float) -> None:
    stream = container.add_stream(codec, rate=44100)
    for start in range(0, int(seconds * 44100), 1024):
        wave = np.sin(np.arange(start, start + 1024) / 20, dtype=np.float32)
        frame = av.AudioFrame.from_ndarray(wave[None], format="fltp", layout="mono")
        frame.sample_rate, frame.pts = 44100, start
        container.mux(stream.encode(frame))
    container.mux(stream.encode())


@dataclass(frozen=True)
class Decoded:
    """Every frame of a file, read in the plainest way."""

    times: list[Fraction]
    pictures: list[np.ndarray]

    def nearest(self, targets: Sequence[Fraction | float]) -> list[int]:
        """Indices of the frames nearest to the targets, each once."""
        chosen = []
        for target in targets:
            best = min(range(len(self.times)), key=lambda i: (abs(self.times[i] - target), i))
            if best not in chosen:
                chosen.append(best)
        return chosen


def read_all(path: Path, size: tuple[int, int] | None = None) -> Decoded:
    """Decodes a whole file in one thread, without seeking; `size` is (height, width)."""
    times, pictures = [], []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        for frame in container.decode(stream):
            times.append(frame.pts * stream.time_base)
            pictures.append(picture_of(frame, size))
    assert all(a < b for a, b in pairwise(times))
    return Decoded([time - times[0] for time in times], pictures)


def picture_of(frame: av.VideoFrame, size: tuple[int, int] | None = None) -> np.ndarray:
    """A frame as RGB; `size` is (height, width)."""
    height, width = size or (frame.height, frame.width)
    rgb = frame.reformat(
        width=width,
        height=height,
        format="rgb24",
        interpolation=Interpolation.BICUBIC | Interpolation.ACCURATE_RND,
        dst_color_range=ColorRange.JPEG,
    )
    return rgb.to_ndarray()


def same_size(n_frames: int, height: int, width: int) -> tuple[int, int]:
    """A model that takes frames as they are."""
    return height, width
