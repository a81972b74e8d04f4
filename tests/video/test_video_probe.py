"""What the probe says about good files and about everything else."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import pytest
from av.stream import Disposition

from tests.video.clips import ClipMaker, add_tone, picture, same_size
from vidcap.errors import InputError
from vidcap.settings import VideoSettings
from vidcap.video import load_frames, probe


@pytest.mark.parametrize(
    ("name", "codec", "pixels", "canonical", "count"),
    [
        ("a.mp4", "libx264", "yuv420p", "h264", 60),
        ("a.mov", "mpeg4", "yuv420p", "mpeg4", 60),
        ("a.mkv", "libx264", "yuv420p", "h264", None),
        ("a.webm", "libvpx-vp9", "yuv420p", "vp9", None),
        ("a.avi", "mjpeg", "yuvj420p", "mjpeg", 60),
        ("b.mp4", "libsvtav1", "yuv420p", "av1", 60),
        ("a.gif", "gif", "rgb8", "gif", 60),
        ("a.ts", "libx264", "yuv420p", "h264", None),
        ("a.flv", "flv", "yuv420p", "flv1", None),
        ("a.h264", "libx264", "yuv420p", "h264", None),
    ],
)
def test_header(
    make_clip: ClipMaker, name: str, codec: str, pixels: str, canonical: str, count: int | None
) -> None:
    info = probe(make_clip(name, codec, pixels=pixels, fps=20))
    assert info.codec == canonical
    assert (info.width, info.height) == (info.coded_width, info.coded_height) == (128, 96)
    assert info.duration_s == pytest.approx(3.0, abs=0.06)
    assert info.average_fps == pytest.approx(20, abs=0.5)
    assert info.frame_count == count
    assert (info.rotation, info.mirrored, info.interlaced) == (0, False, False)
    assert info.path.endswith(name)


@pytest.mark.parametrize("start", [0, 40, 4000])
@pytest.mark.parametrize("name", ["late.mkv", "late.mp4", "late.ts"])
def test_duration_counts_from_the_first_frame(make_clip: ClipMaker, name: str, start: int) -> None:
    path = make_clip(name, frames=60, fps=20, stamps=range(start, start + 60))
    assert probe(path).duration_s == pytest.approx(3.0, abs=0.06)


def test_duration_of_a_live_recording_is_found_in_its_packets(make_clip: ClipMaker) -> None:
    path = make_clip.folder / "live.mkv"
    with av.open(str(path), "w", options={"live": "1"}) as container:
        stream = container.add_stream("libx264", rate=20)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for index in range(60):
            frame = av.VideoFrame.from_ndarray(picture(index, 48, 64), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with av.open(str(path)) as container:
        assert container.duration is None
    assert probe(path).duration_s == pytest.approx(3.0, abs=0.06)
    assert len(load_frames(path, VideoSettings(), same_size).rgb) == 6


def test_sound_that_begins_first_does_not_lengthen_the_video(make_clip: ClipMaker) -> None:
    path = make_clip.folder / "late-picture.flv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("flv", rate=20)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        add_tone(container, "aac", 2.0)
        for index in range(60):
            frame = av.VideoFrame.from_ndarray(picture(index, 48, 64), format="rgb24")
            frame.pts, frame.time_base = index + 40, Fraction(1, 20)
            container.mux(stream.encode(frame.reformat(format="yuv420p")))
        container.mux(stream.encode())
    assert probe(path).duration_s == pytest.approx(3.0, abs=0.06)


def message(path: Path | str) -> str:
    """The error of probing and of reading, which have to be the same."""
    with pytest.raises(InputError) as probing:
        probe(path)
    with pytest.raises(InputError) as reading:
        load_frames(path, VideoSettings(), same_size)
    assert probing.value.message == reading.value.message
    assert "\n" not in probing.value.message
    return probing.value.message


def test_files_that_are_no_videos(tmp_path: Path) -> None:
    def written(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    assert message(tmp_path / "nowhere.mp4") == "no such file"
    assert message("bad\0name.mp4") == "no such file"
    assert message(tmp_path) == "is a directory"
    assert message(written("empty.mp4", b"")) == "not a video (the file is empty)"
    assert message(written("text.mp4", "Grüße\n".encode() * 2000)) == "not a video"
    # FFmpeg draws text files as pictures of text, and follows playlists to other files.
    assert message(written("text.txt", b"hello world\n" * 50)) == "not a video"
    assert message(written("list.m3u8", b"#EXTM3U\n#EXTINF:2,\na.ts\n#EXT-X-ENDLIST\n")) == (
        "not a video"
    )
    assert message(written("list.ffconcat", b"ffconcat version 1.0\nfile a.mp4\n")) == "not a video"
    assert message(written("zeros.mp4", bytes(100_000))) == "truncated or not a video"
    noise = b"".join(bytes([n * 7 % 256, n * n % 251]) for n in range(4000))
    assert message(written("noise.mkv", noise)) == "truncated or not a video"
    subtitles = b"1\n00:00:00,000 --> 00:00:01,000\nhello\n\n"
    assert message(written("words.srt", subtitles)) == "no video stream"


def test_link_loop_and_pipe(tmp_path: Path) -> None:
    (tmp_path / "loop.mp4").symlink_to(tmp_path / "loop.mp4")
    assert "symbolic links" in message(tmp_path / "loop.mp4")
    os.mkfifo(tmp_path / "pipe.mp4")
    assert message(tmp_path / "pipe.mp4") == "not a regular file"


def test_unreadable_file(make_clip: ClipMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_clip("a.mp4", frames=2)
    path.chmod(0)
    if os.access(path, os.R_OK):  # root reads everything

        def refuse(*_: object, **__: object) -> None:
            raise av.error.PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(av, "open", refuse)
    assert message(path) == "permission denied"


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.m4a", "aac"), ("a.mp4", "aac"), ("a.mkv", "aac"), ("a.wav", "pcm_s16le")],
)
def test_sound_only(make_clip: ClipMaker, name: str, codec: str) -> None:
    assert message(make_clip.sound(name, codec)) == "no video stream (audio only)"


def jpeg() -> bytes:
    context = av.CodecContext.create("mjpeg", "w")
    context.width, context.height, context.pix_fmt = 64, 48, "yuvj420p"
    context.time_base = Fraction(1, 1)
    frame = av.VideoFrame.from_ndarray(picture(0, 48, 64), format="rgb24")
    packets = context.encode(frame.reformat(format="yuvj420p")) + context.encode()
    return b"".join(bytes(packet) for packet in packets)


@pytest.mark.parametrize("name", ["song.mp4", "song.mkv"])
def test_cover_picture_is_not_a_video(make_clip: ClipMaker, name: str) -> None:
    path = make_clip.folder / name
    with av.open(str(path), "w") as container:
        if name.endswith("mkv"):
            container.add_attachment("cover.jpg", "image/jpeg", jpeg())
        else:
            cover = container.add_stream("mjpeg", rate=1)
            cover.width, cover.height, cover.pix_fmt = 64, 48, "yuvj420p"
            cover.disposition = Disposition.attached_pic
        add_tone(container, "aac", 1.0)
        if name.endswith("mp4"):
            packet = av.Packet(jpeg())
            packet.stream, packet.pts, packet.dts = cover, 0, 0
            container.mux(packet)
    with av.open(str(path)) as container:
        assert len(container.streams.video) == 1
    assert message(path) == "no video stream (audio only)"


@pytest.mark.parametrize(
    ("sizes", "default", "chosen"),
    [
        ([(32, 32), (64, 48)], None, 1),
        ([(64, 48), (32, 32)], None, 0),
        ([(64, 48), (32, 32)], 1, 1),
        ([(32, 32), (32, 32), (64, 48)], 0, 0),
        ([(32, 32), (32, 32)], None, 0),
    ],
)
def test_choice_among_several_video_streams(
    make_clip: ClipMaker, sizes: list[tuple[int, int]], default: int | None, chosen: int
) -> None:
    path = make_clip.folder / "several.mkv"
    with av.open(str(path), "w", options={"default_mode": "passthrough"}) as container:
        streams = []
        for index, (width, height) in enumerate(sizes):
            stream = container.add_stream("libx264", rate=10)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            stream.disposition = Disposition.default if index == default else Disposition(0)
            streams.append(stream)
        for stream in streams:
            for index in range(10):
                image = picture(index, stream.height, stream.width)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        for stream in streams:
            container.mux(stream.encode())
    info = probe(path)
    assert info.stream_index == chosen
    assert (info.width, info.height) == sizes[chosen]
    assert load_frames(path, VideoSettings(), same_size).rgb.shape[1:3] == sizes[chosen][::-1]


@pytest.mark.parametrize(
    "name",
    ["two words.mp4", "-dash.mp4", "a:b.mp4", "視頻 🎬.mp4", "[x]{y}*%d?.mp4", b"\xff\xfe.mp4"],
)
def test_any_file_name(
    make_clip: ClipMaker, monkeypatch: pytest.MonkeyPatch, name: str | bytes
) -> None:
    monkeypatch.chdir(make_clip.folder)
    name = os.fsdecode(name)
    make_clip("plain.mp4", frames=3).rename(make_clip.folder / name)
    assert probe(name).path == name
    assert probe(make_clip.folder / name).codec == "h264"


def test_text_in_an_unknown_encoding_inside_the_file(make_clip: ClipMaker) -> None:
    path = make_clip("a.mkv", frames=3)
    content = path.read_bytes()
    assert content.count(b"Lavf") > 0
    path.write_bytes(content.replace(b"Lavf", b"\xff\xfe\xfa\xfb"))
    assert probe(path).codec == "h264"


def test_huge_frames_are_refused(make_clip: ClipMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_clip.folder / "huge.png"
    context = av.CodecContext.create("png", "w")
    context.width, context.height, context.pix_fmt = 16384, 8200, "monob"
    context.time_base = Fraction(1, 1)
    path.write_bytes(bytes(context.encode(av.VideoFrame(16384, 8200, "monob"))[0]))
    assert message(path) == "frames of 16384x8200 pixels are too large"
    # A frame can be larger than the header says.
    clip = make_clip("a.mp4", frames=3)
    monkeypatch.setattr("vidcap.video.reader.MAX_FRAME_PIXELS", 1000)
    assert message(clip) == "frames of 128x96 pixels are too large"


def test_ffmpeg_is_silent_about_damaged_files(make_clip: ClipMaker) -> None:
    path = make_clip("a.mkv", frames=60)
    content = bytearray(path.read_bytes())
    for place in range(len(content) // 3, len(content), 300):
        content[place : place + 20] = bytes(range(20))
    path.write_bytes(content)
    code = (
        "import sys; from vidcap.settings import VideoSettings; from vidcap.video import *;"
        "f = load_frames(sys.argv[1], VideoSettings(fps=5), lambda n, h, w: (h, w));"
        "print(f.corrupt_frames, {'torch', 'transformers'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.endswith("set()\n")
