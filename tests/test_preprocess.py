"""What models are told about the frames, and which of them share inputs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from vidcap.preprocess import model_fps, preprocess
from vidcap.video import Frames, VideoInfo


def make_frames(times: list[float], average_fps: float | None = 25.0) -> Frames:
    info = VideoInfo(
        path="clip.mp4",
        container="mp4",
        codec="h264",
        pixel_format="yuv420p",
        stream_index=0,
        duration_s=times[-1],
        width=28,
        height=28,
        coded_width=28,
        coded_height=28,
        rotation=0,
        mirrored=False,
        average_fps=average_fps,
        frame_count=None,
        interlaced=False,
    )
    rgb = np.zeros((len(times), 28, 28, 3), dtype=np.uint8)
    return Frames(rgb, np.array(times), info, times[-1], 0, ())


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0.0, 0.5, 1.0, 1.5], 2.0),
        ([0.0, 0.5, 1.0, 1.47], 2.0),
        ([0.0, 0.5005, 1.001, 1.5015], 2.0),
        ([0.0, 3.0, 6.0, 9.0], 1 / 3),
        ([0.0], 2.0),
    ],
)
def test_the_model_is_told_the_asked_rate_where_frames_sit_on_its_grid(
    times: list[float], expected: float
) -> None:
    assert model_fps(make_frames(times), 2.0) == pytest.approx(expected)


def test_without_a_frame_rate_in_the_header_only_the_exact_grid_counts() -> None:
    assert model_fps(make_frames([0.0, 0.5, 1.0], None), 2.0) == 2.0
    assert model_fps(make_frames([0.0, 0.5, 1.001], None), 2.0) == pytest.approx(2 / 1.001)


@dataclass
class Preparing:
    preprocessing: str
    asked: list[tuple[float, float]] = field(default_factory=list)

    def prepare(self, rgb: np.ndarray, fps: float, start_s: float) -> tuple[str, int]:
        self.asked.append((fps, start_s))
        return self.preprocessing, len(rgb)


def test_models_that_want_the_same_share_their_inputs() -> None:
    target, twin, other = Preparing("a"), Preparing("a"), Preparing("b")
    inputs = preprocess([target, twin, other], make_frames([1.0, 4.0, 7.0]), 2.0)
    assert inputs == [("a", 3), ("a", 3), ("b", 3)]
    assert inputs[0] is inputs[1]
    assert (target.asked, twin.asked, other.asked) == ([(1 / 3, 1.0)], [], [(1 / 3, 1.0)])
