"""Every sampled frame is the right one: compared with a plain sequential decode, pixel by pixel."""

from __future__ import annotations

import resource
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.video.clips import (
    ClipMaker,
    Decoded,
    calm_picture,
    picture_of,
    read_all,
    same_size,
)
from vidcap.bench.readers import repeat_clip
from vidcap.errors import InputError
from vidcap.settings import VideoSettings
from vidcap.video import DecodingInterruptedError, Frames, load_frames, plan_sampling
from vidcap.video.reader import FrameReader
from vidcap.video.shortcuts import RESERVES
from vidcap.video.source import open_source

FORMATS = [
    ("h264-b.mp4", "libx264", "yuv420p", {"bf": "3", "b-pyramid": "normal"}),
    ("h264.mkv", "libx264", "yuv420p", {}),
    ("h264-open.mkv", "libx264", "yuv420p", {"x264-params": "open-gop=1:bframes=3:scenecut=0"}),
    ("h264.ts", "libx264", "yuv420p", {}),
    ("h264-10.mp4", "libx264", "yuv420p10le", {}),
    ("hevc.mp4", "libx265", "yuv420p", {}),
    ("hevc.mkv", "libx265", "yuv420p", {}),
    ("av1.mp4", "libsvtav1", "yuv420p", {}),
    ("vp9.webm", "libvpx-vp9", "yuv420p", {"deadline": "realtime", "cpu-used": "8"}),
    ("vp8.webm", "libvpx", "yuv420p", {"deadline": "realtime"}),
    ("mpeg4.mov", "mpeg4", "yuv420p", {}),
    ("mpeg4.avi", "mpeg4", "yuv420p", {}),
    ("mpeg4-b.mp4", "mpeg4", "yuv420p", {"bf": "2"}),
    ("mpeg2.ts", "mpeg2video", "yuv420p", {"bf": "2"}),
    ("mjpeg.avi", "mjpeg", "yuvj420p", {}),
    ("prores.mov", "prores_ks", "yuv422p10le", {}),
    ("ffv1.mkv", "ffv1", "yuv420p", {}),
    ("flv1.flv", "flv", "yuv420p", {}),
    ("wmv2.wmv", "wmv2", "yuv420p", {}),
    ("anim.gif", "gif", "rgb8", {}),
]
NAMES = [name for name, *_ in FORMATS]


def check(frames: Frames, whole: Decoded, settings: VideoSettings) -> None:
    """`frames` are exactly what the plan picks from the whole file."""
    assert frames.info.duration_s is not None
    plan = plan_sampling(settings, Fraction(str(round(frames.info.duration_s, 9))))
    expected = whole.nearest(plan.targets)
    np.testing.assert_allclose(frames.times_s, [float(whole.times[i]) for i in expected], atol=1e-9)
    for got, index in zip(frames.rgb, expected, strict=True):
        assert np.array_equal(got, whole.pictures[index])


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Decoded]]:
    """Nine seconds at 20 fps in every format, and what is in them."""
    make = ClipMaker(tmp_path_factory.mktemp("clips"))
    made = {}
    for name, codec, pixels, options in FORMATS:
        path = make(name, codec, frames=180, fps=20, pixels=pixels, size=(64, 48), **options)
        made[name] = path, read_all(path)
    return made


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("threads", [1, 3])
def test_dense_sampling(clips: dict[str, tuple[Path, Decoded]], name: str, threads: int) -> None:
    path, whole = clips[name]
    assert len({picture.tobytes() for picture in whole.pictures}) == len(whole.pictures) == 180
    settings = VideoSettings(fps=7)
    frames = load_frames(path, settings, same_size, threads=threads)
    assert len(frames.rgb) == 63
    check(frames, whole, settings)
    assert (frames.warnings, frames.corrupt_frames) == ((), 0)
    assert frames.decoded_s == pytest.approx(9.0, abs=0.06)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "settings",
    [
        VideoSettings(fps=0.3),
        VideoSettings(fps=4, max_frames=3),
        VideoSettings(fps=2, start_s=5.33),
        VideoSettings(fps=30, max_frames=5, start_s=2.9, end_s=3.4),
        VideoSettings(fps=2, max_frames=1, start_s=8.94),
        VideoSettings(fps=0.25, start_s=4.05, max_frames=8),
    ],
    ids=["sparse", "capped", "start", "window", "last", "sparse-start"],
)
def test_sparse_sampling_and_ranges(
    clips: dict[str, tuple[Path, Decoded]], name: str, settings: VideoSettings
) -> None:
    path, whole = clips[name]
    check(load_frames(path, settings, same_size, threads=2), whole, settings)


SEEKABLE = [name for name in NAMES if name.rsplit(".")[-1] in ("mp4", "mov", "mkv", "webm")]


@pytest.mark.parametrize("name", SEEKABLE)
def test_far_apart_samples_are_reached_by_jumps(
    clips: dict[str, tuple[Path, Decoded]], name: str, jumps: list[int], decoded: list[int]
) -> None:
    path, whole = clips[name]
    settings = VideoSettings(fps=0.2, start_s=0.5)
    check(load_frames(path, settings, same_size), whole, settings)
    assert 1 <= len(jumps) <= 2
    assert len(decoded) < 0.75 * len(whole.pictures)


@pytest.mark.parametrize(("name", "gop"), [("a.mp4", 250), ("a.mkv", 250), ("a.mp4", 50)])
def test_work_is_bounded_by_the_groups_of_pictures(
    make_clip: ClipMaker, name: str, gop: int, jumps: list[int], decoded: list[int]
) -> None:
    # Two seconds between samples, longer than a jump is worth, shorter than a group of pictures.
    options = {"x264-params": "scenecut=0:bframes=3"}
    path = make_clip(name, frames=1000, gop=gop, size=(64, 48), draw=calm_picture, **options)
    settings = VideoSettings(fps=0.5)
    check(load_frames(path, settings, same_size), read_all(path), settings)
    assert len(jumps) <= 17
    assert len(decoded) <= 1000 + gop


@pytest.mark.parametrize("name", ["refresh.mp4", "refresh.mkv"])
def test_stream_that_is_refreshed_bit_by_bit(
    make_clip: ClipMaker, name: str, jumps: list[int]
) -> None:
    # It has entry points but no key frames: after vain jumps it is decoded from the start.
    path = make_clip(
        name, frames=300, gop=60, draw=calm_picture, **{"x264-params": "intra-refresh=1:bframes=0"}
    )
    settings = VideoSettings(fps=2, start_s=4.2, end_s=6)
    check(load_frames(path, settings, same_size), read_all(path), settings)
    assert len(jumps) == len(RESERVES)


@pytest.mark.parametrize("start_s", [3.95, 4.0, 4.3, 5.9, 6.05])
@pytest.mark.parametrize("name", ["open.mp4", "open.mkv"])
def test_open_groups_of_pictures(
    make_clip: ClipMaker, name: str, start_s: float, jumps: list[int]
) -> None:
    options = {"x264-params": "open-gop=1:bframes=3:scenecut=0"}
    path = make_clip(name, frames=200, gop=20, draw=calm_picture, **options)
    settings = VideoSettings(fps=10, start_s=start_s, end_s=6.4)
    check(load_frames(path, settings, same_size, threads=2), read_all(path), settings)
    assert len(jumps) == 1


@pytest.mark.parametrize("name", SEEKABLE)
def test_jump_after_the_end_of_the_file_was_reached(
    clips: dict[str, tuple[Path, Decoded]], name: str
) -> None:
    path, whole = clips[name]
    with open_source(path) as source:
        reader = FrameReader(source, threads=3)
        assert len(list(reader)) == 180
        for target in (100, 0, 179):
            reader.seek(int(whole.times[target] / source.stream.time_base))
            rest = list(reader)
            shown = {frame.pts * source.stream.time_base: picture_of(frame) for frame in rest}
            assert whole.times[target] in shown
            # Pictures before the key frame's own, of an open group, miss what they refer to.
            key = next(frame.pts * source.stream.time_base for frame in rest if frame.key_frame)
            for time, stored in zip(whole.times, whole.pictures, strict=True):
                if time >= key:
                    assert np.array_equal(shown[time], stored)


def test_work_and_memory_follow_the_samples_not_the_length(
    make_clip: ClipMaker, decoded: list[int], jumps: list[int]
) -> None:
    # Two hours: a minute, 120 times.
    minute = make_clip("minute.mp4", frames=600, fps=10, gop=100, size=(64, 48), draw=calm_picture)
    path = make_clip.folder / "hours.mp4"
    repeat_clip(str(minute), str(path), 7200)
    whole, alive = read_all(minute), []

    def size(count: int, height: int, width: int) -> tuple[int, int]:
        alive.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return height, width

    frames = load_frames(path, VideoSettings(fps=2, max_frames=64), size)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - alive[0]
    assert frames.info.duration_s == pytest.approx(7200)
    assert frames.times_s.tolist() == [k * 112.5 for k in range(64)]
    for time, shown in zip(frames.times_s, frames.rgb, strict=True):
        assert np.array_equal(shown, whole.pictures[round(time * 10) % 600])
    assert len(jumps) == 63
    assert len(decoded) < 64 * 100
    assert grown < 30_000  # KiB; all frames would take 660 MB


def test_dense_sampling_makes_no_jump(
    clips: dict[str, tuple[Path, Decoded]], jumps: list[int]
) -> None:
    load_frames(clips["h264.mkv"][0], VideoSettings(fps=2), same_size)
    assert jumps == []


@pytest.mark.parametrize("name", ["vfr.mp4", "vfr.mkv"])
@pytest.mark.parametrize("fps", [0.5, 2, 5, 25])
def test_variable_frame_rate(make_clip: ClipMaker, name: str, fps: float) -> None:
    rng = np.random.default_rng(3)
    gaps = rng.choice([10, 33, 40, 200, 1500], size=90)
    stamps = [int(stamp) for stamp in np.cumsum(gaps)]
    path = make_clip(name, frames=90, stamps=stamps, time_base=Fraction(1, 1000), gop=8)
    whole, settings = read_all(path), VideoSettings(fps=fps, max_frames=500)
    frames = load_frames(path, settings, same_size)
    check(frames, whole, settings)
    assert frames.times_s[0] == 0
    assert np.all(np.diff(frames.times_s) > 0)


def test_long_pause_before_a_key_frame_keeps_the_frame_before_it(make_clip: ClipMaker) -> None:
    stamps = [0, 100, 60_000, 60_100, 120_000]
    path = make_clip("pause.mkv", frames=5, stamps=stamps, time_base=Fraction(1, 1000), gop=1)
    settings = VideoSettings(fps=0.1, end_s=60)
    frames = load_frames(path, settings, same_size)
    assert frames.times_s.tolist() == [0.0, 0.1, 60.0]
    check(frames, read_all(path), settings)


@pytest.mark.parametrize("name", ["late.mp4", "late.mkv", "late.ts"])
def test_times_count_from_the_first_frame(make_clip: ClipMaker, name: str) -> None:
    path = make_clip(name, frames=40, fps=10, stamps=range(700, 740))
    frames = load_frames(path, VideoSettings(fps=1), same_size)
    assert frames.times_s.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_reordered_frames_in_avi_have_their_true_times(make_clip: ClipMaker) -> None:
    reference = read_all(make_clip("b.mkv", frames=60, bf="3"))
    path = make_clip("b.avi", frames=60, bf="3")
    frames = load_frames(path, VideoSettings(fps=30), same_size)
    np.testing.assert_allclose(frames.times_s, np.arange(60) / 30, atol=1e-9)
    assert np.array_equal(frames.rgb, reference.pictures)


def test_raw_stream_without_time_stamps(make_clip: ClipMaker) -> None:
    reference = read_all(make_clip("raw.mkv", frames=50))
    frames = load_frames(make_clip("raw.h264", frames=50), VideoSettings(fps=30), same_size)
    np.testing.assert_allclose(frames.times_s, np.arange(50) / 30, atol=1e-9)
    assert np.array_equal(frames.rgb, reference.pictures)


def test_more_frames_asked_than_exist_gives_all(make_clip: ClipMaker) -> None:
    path = make_clip("few.mp4", frames=7)
    frames = load_frames(path, VideoSettings(fps=900, max_frames=64), same_size)
    assert np.array_equal(frames.rgb, read_all(path).pictures)
    assert frames.warnings == ()


@pytest.mark.parametrize("name", ["one.mp4", "one.mkv", "one.webm", "one.gif", "one.avi"])
@pytest.mark.parametrize("count", [1, 2])
def test_very_short_videos(make_clip: ClipMaker, name: str, count: int) -> None:
    codec, pixels = {
        "webm": ("libvpx-vp9", "yuv420p"),
        "gif": ("gif", "rgb8"),
        "avi": ("mjpeg", "yuvj420p"),
    }.get(name.split(".")[1], ("libx264", "yuv420p"))
    path = make_clip(name, codec, frames=count, pixels=pixels, fps=10)
    frames = load_frames(path, VideoSettings(fps=2), same_size)
    assert (len(frames.rgb), frames.warnings) == (1, ())
    assert frames.sampled_fps is None
    dense = load_frames(path, VideoSettings(fps=100), same_size)
    assert len(dense.rgb) == count


def test_frame_size_is_asked_with_the_planned_count(make_clip: ClipMaker) -> None:
    asked = []

    def half(n_frames: int, height: int, width: int) -> tuple[int, int]:
        asked.append((n_frames, height, width))
        return height // 2, width // 2

    path = make_clip("size.mp4", frames=60)
    frames = load_frames(path, VideoSettings(fps=2), half)
    assert asked == [(4, 96, 128)]
    assert frames.rgb.shape == (4, 48, 64, 3)
    assert frames.rgb.dtype == np.uint8
    assert np.array_equal(frames.rgb[1], read_all(path, (48, 64)).pictures[15])
    assert frames.sampled_fps == pytest.approx(2.0)


def test_errors_of_the_model_about_the_size_pass_through(make_clip: ClipMaker) -> None:
    def refuse(n_frames: int, height: int, width: int) -> tuple[int, int]:
        raise InputError("frame too narrow")

    with pytest.raises(InputError, match="too narrow"):
        load_frames(make_clip("a.mp4", frames=3), VideoSettings(), refuse)


def test_change_of_resolution_in_the_middle(make_clip: ClipMaker) -> None:
    wide = make_clip("wide.ts", "mpeg2video", frames=30, size=(128, 96))
    tall = make_clip("tall.ts", "mpeg2video", frames=30, size=(96, 128), stamps=range(31, 61))
    path = make_clip.folder / "both.ts"
    path.write_bytes(wide.read_bytes() + tall.read_bytes())
    frames = load_frames(path, VideoSettings(fps=2), lambda n, h, w: (56, 84))
    assert frames.rgb.shape == (4, 56, 84, 3)
    assert np.array_equal(frames.rgb[0], read_all(wide, (56, 84)).pictures[0])
    assert np.array_equal(frames.rgb[3], read_all(tall, (56, 84)).pictures[15])


def test_start_behind_the_end_is_an_input_error(make_clip: ClipMaker) -> None:
    path = make_clip("a.mp4", frames=60)
    with pytest.raises(InputError, match=r"--start 20 s is past the end of the video \(2\.0 s\)"):
        load_frames(path, VideoSettings(start_s=20), same_size)


def test_stops_between_packets_when_asked(make_clip: ClipMaker) -> None:
    path, asked = make_clip("a.mkv", frames=200, gop=10), []

    def stop_soon() -> bool:
        asked.append(None)
        return len(asked) > 50

    with pytest.raises(DecodingInterruptedError):
        load_frames(path, VideoSettings(fps=2), same_size, should_stop=stop_soon)
    assert len(asked) == 51


def test_decoding_works_in_several_threads_at_once(make_clip: ClipMaker) -> None:
    path, results = make_clip("a.mp4", frames=60), []

    def work() -> None:
        results.append(load_frames(path, VideoSettings(fps=4), same_size, threads=2).rgb)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 4
    assert all(np.array_equal(rgb, results[0]) for rgb in results)
