"""Frames come out as they are displayed: turned, in proportion, in the right colours."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc

from tests.video.clips import ClipMaker, read_all, same_size
from vidcap.settings import VideoSettings
from vidcap.video import load_frames, probe
from vidcap.video.orientation import Orientation, display_size
from vidcap.video.tonemap import pq_code

ONE = VideoSettings(max_frames=1)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270, -90, -180])
@pytest.mark.parametrize("name", ["a.mp4", "a.mov"])
def test_display_matrix(make_clip: ClipMaker, name: str, rotation: int, mirror: bool) -> None:
    path = make_clip(name, frames=3, rotation=rotation, mirror=mirror)
    stored = read_all(path).pictures[0]
    upright = np.rot90(stored, rotation // 90 % 4)
    expected = upright[:, ::-1] if mirror else upright
    frames = load_frames(path, ONE, same_size)
    assert np.array_equal(frames.rgb[0], expected)
    info = frames.info
    assert (info.rotation, info.mirrored) == (rotation % 360, mirror)
    assert (info.height, info.width) == expected.shape[:2]
    assert (info.coded_height, info.coded_width) == (96, 128)


def test_rotation_in_matroska(make_clip: ClipMaker) -> None:
    path = make_clip("a.mkv", frames=3, rotation=90)
    frames = load_frames(path, ONE, same_size)
    assert np.array_equal(frames.rgb[0], np.rot90(read_all(path).pictures[0]))


def test_scaling_before_turning_equals_turning_before_scaling(make_clip: ClipMaker) -> None:
    turned = make_clip("turned.mp4", frames=2, rotation=90)
    frames = load_frames(turned, ONE, lambda n, height, width: (height // 2, width // 2))
    small = read_all(turned, (48, 64)).pictures[0]
    assert np.array_equal(frames.rgb[0], np.rot90(small))


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("flip_x", [False, True])
@pytest.mark.parametrize("flip_y", [False, True])
def test_orientation_in_words_describes_what_it_does(
    transpose: bool, flip_x: bool, flip_y: bool
) -> None:
    orientation = Orientation(transpose, flip_x, flip_y)
    image = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    expected = np.rot90(image, orientation.rotation // 90)
    expected = expected[:, ::-1] if orientation.mirrored else expected
    assert np.array_equal(orientation.apply(image), expected)
    assert orientation.size(2, 3) == expected.shape[:2]


@pytest.mark.parametrize(
    ("aspect", "rotation", "displayed"),
    [
        (Fraction(4, 3), None, (96, 171)),
        (Fraction(128, 117), None, (96, 140)),
        (Fraction(3, 4), None, (128, 128)),
        (Fraction(4, 3), 90, (171, 96)),
        (Fraction(1), None, (96, 128)),
    ],
)
@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_sample_aspect_ratio(
    make_clip: ClipMaker,
    name: str,
    aspect: Fraction,
    rotation: int | None,
    displayed: tuple[int, int],
) -> None:
    path = make_clip(name, frames=2, sample_aspect=aspect, rotation=rotation)
    frames = load_frames(path, ONE, same_size)
    assert (frames.info.height, frames.info.width) == displayed == frames.rgb.shape[1:3]
    stored_size = displayed[::-1] if rotation else displayed
    expected = read_all(path, stored_size).pictures[0]
    assert np.array_equal(frames.rgb[0], np.rot90(expected) if rotation else expected)


@pytest.mark.parametrize("aspect", [None, Fraction(0), Fraction(1, 1000), Fraction(1000)])
def test_absurd_sample_aspect_ratio_is_ignored(aspect: Fraction | None) -> None:
    assert display_size(48, 64, aspect, Orientation()) == (48, 64)


@pytest.mark.parametrize(
    ("size", "codec", "pixels"),
    [
        ((1, 1), "ffv1", "gray"),
        ((7, 5), "ffv1", "yuv444p"),
        ((7, 5), "gif", "rgb8"),
        ((2, 600), "libx264", "yuv420p"),
        ((33, 17), "mjpeg", "yuvj420p"),
        ((161, 91), "libvpx-vp9", "yuv420p"),
    ],
)
def test_odd_sizes(make_clip: ClipMaker, size: tuple[int, int], codec: str, pixels: str) -> None:
    name = "odd.gif" if codec == "gif" else "odd.mkv"
    path = make_clip(name, codec, frames=3, size=size, pixels=pixels)
    assert load_frames(path, VideoSettings(), same_size).rgb.shape == (1, *size[::-1], 3)
    scaled = load_frames(path, VideoSettings(), lambda n, h, w: (28, 84))
    assert scaled.rgb.shape == (1, 28, 84, 3)


#: (Kr, Kb) of ITU-R BT.709, BT.601 and BT.2020, and FFmpeg's number for each.
MATRICES = {1: (0.2126, 0.0722), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}

COLOURS = [(200, 40, 60), (30, 180, 90), (70, 60, 220), (128, 128, 128), (250, 250, 250)]


def yuv(rgb: tuple[int, int, int], matrix: int, full: bool, bits: int) -> list[int]:
    """The colour as Y, Cb, Cr, by the formulas of the standards."""
    kr, kb = MATRICES[matrix]
    red, green, blue = (value / 255 for value in rgb)
    luma = kr * red + (1 - kr - kb) * green + kb * blue
    chroma = [(blue - luma) / (2 - 2 * kb), (red - luma) / (2 - 2 * kr)]
    scale = 2 ** (bits - 8)
    if full:
        top = 2**bits - 1
        return [round(luma * top)] + [round(c * top + 128 * scale) for c in chroma]
    return [round((16 + 219 * luma) * scale)] + [round((128 + 224 * c) * scale) for c in chroma]


def write_colour(
    path: Path, values: list[int], pixels: str, prepare: Callable[[av.VideoStream], None]
) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10, options={"qp": "0"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, pixels
        prepare(stream)
        frame = av.VideoFrame(64, 48, pixels)
        frame.colorspace, frame.color_range = stream.colorspace, stream.color_range
        kind = np.uint16 if "10" in pixels else np.uint8
        for plane, value in zip(frame.planes, values, strict=True):
            plane.update(np.full(plane.buffer_size // kind().nbytes, value, kind).tobytes())
        frame.pts = 0
        container.mux(stream.encode(frame))
        container.mux(stream.encode())


@pytest.mark.parametrize("pixels", ["yuv420p", "yuv444p", "yuv420p10le"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("matrix", list(MATRICES))
@pytest.mark.parametrize("size", [(48, 64), (20, 36)])
def test_matrix_and_range_of_the_stream_are_honoured(
    tmp_path: Path, pixels: str, full: bool, matrix: int, size: tuple[int, int]
) -> None:
    def prepare(stream: av.VideoStream) -> None:
        stream.colorspace = matrix
        stream.color_range = ColorRange.JPEG if full else ColorRange.MPEG

    for number, colour in enumerate(COLOURS):
        path = tmp_path / f"{number}.mp4"
        write_colour(path, yuv(colour, matrix, full, 10 if "10" in pixels else 8), pixels, prepare)
        frames = load_frames(path, ONE, lambda n, h, w: size)
        assert np.abs(frames.rgb[0].astype(int) - colour).max() <= 3


def test_undeclared_colours_count_as_bt601(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    write_colour(path, yuv(COLOURS[0], 6, False, 8), "yuv420p", lambda stream: None)
    frames = load_frames(path, ONE, same_size)
    assert np.abs(frames.rgb[0].astype(int) - COLOURS[0]).max() <= 3


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "matrix undeclared"])
@pytest.mark.parametrize(("transfer", "white"), [(ColorTrc.SMPTE2084, 0.58), (18, 0.75)])
def test_hdr_is_fitted_to_an_ordinary_screen(
    tmp_path: Path, transfer: int, white: float, declared: bool
) -> None:
    def prepare(stream: av.VideoStream) -> None:
        stream.color_trc, stream.color_primaries = ColorTrc(transfer), ColorPrimaries.BT2020
        if declared:
            stream.colorspace = Colorspace.BT2020

    def shown(*coded: float) -> list[int]:
        path = tmp_path / "hdr.mp4"
        levels = tuple(value * 255 for value in coded)
        write_colour(path, yuv(levels, 9, False, 10), "yuv420p10le", prepare)
        frames = load_frames(path, ONE, lambda n, h, w: (20, 36))
        name = "PQ" if transfer == ColorTrc.SMPTE2084 else "HLG"
        assert frames.warnings == (
            f"HDR video ({name}) is fitted to an ordinary screen: colours are approximate",
        )
        return frames.rgb[0, 10, 18].astype(int).tolist()

    assert shown(0, 0, 0) == [0, 0, 0]
    # Diffuse white is nearly white, and what is brighter still differs from it.
    grey = shown(white, white, white)
    assert max(grey) - min(grey) <= 2
    assert 220 <= grey[0] <= 240
    assert grey[0] < shown(white + 0.08, white + 0.08, white + 0.08)[0] <= 255
    # The red of BT.709, at a third of that brightness, as BT.2020 coordinates (BT.2087).
    light = np.array([0.6274, 0.0691, 0.0164]) * 203 / 3
    if transfer == ColorTrc.SMPTE2084:
        red, green, blue = shown(*pq_code(light))
        assert 150 <= red <= 165
        assert max(green, blue) <= 12


@pytest.mark.parametrize("threads", [1, 2])
def test_interlaced_video_is_marked_and_shown_without_combing(
    make_clip: ClipMaker, threads: int
) -> None:
    def woven(index: int, height: int, width: int) -> np.ndarray:
        image = moving_edge(2 * index, height, width)
        image[1::2] = moving_edge(2 * index + 1, height, width)[1::2]
        return image

    options = {"x264-params": "tff=1:qp=4"}
    path = make_clip("a.mp4", frames=8, draw=woven, size=(160, 96), **options)
    frames = load_frames(path, VideoSettings(fps=1000), same_size, threads=threads)
    assert frames.info.interlaced
    assert len(frames.rgb) == 8
    for index, (shown, stored) in enumerate(zip(frames.rgb, read_all(path).pictures, strict=True)):
        assert combing(stored) > 5
        assert combing(shown) < 0.5
        # Everything is as it was at the time of one of the fields.
        moments = [moving_edge(2 * index + field, 96, 160).astype(int) for field in (0, 1)]
        assert min(np.abs(shown - moment).mean() for moment in moments) < 3


def moving_edge(moment: int, height: int, width: int) -> np.ndarray:
    image = np.full((height, width, 3), 40, np.uint8)
    image[:, moment * 8 % width :] = 210
    return image


def combing(image: np.ndarray) -> float:
    """How much more the rows differ from their neighbours than from the next but one."""
    rows = image[..., 1].astype(int)
    return float(np.abs(rows[1:-1] - rows[:-2]).mean() - np.abs(rows[2:] - rows[:-2]).mean())


def test_progressive_frames_are_not_touched(make_clip: ClipMaker) -> None:
    path = make_clip("a.mp4", frames=3)
    assert not probe(path).interlaced
    assert np.array_equal(load_frames(path, ONE, same_size).rgb[0], read_all(path).pictures[0])
