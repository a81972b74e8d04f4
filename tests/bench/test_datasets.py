from __future__ import annotations

import json
from pathlib import Path

import pytest

from vidcap.bench.datasets import named_place, read_dataset
from vidcap.bench.rendered import render_dataset, world_of_length
from vidcap.demo.clips import write_dataset
from vidcap.demo.scenes import FIRST_WORLD, RICH_WORLD, World
from vidcap.errors import InputError, UsageError
from vidcap.models.geometry import QwenVLGeometry, read_geometry
from vidcap.settings import DEFAULT_DESCRIBE_PROMPT, VideoSettings
from vidcap.video import load_frames

VIDEO = VideoSettings()


@pytest.fixture(scope="module")
def geometry(tiny_target: Path) -> QwenVLGeometry:
    return read_geometry(tiny_target)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.MP4", "a.mkv", "deep/c.webm", ".hidden.mp4", ".git/d.mp4", "notes.txt"):
        path = tmp_path / "videos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path / "videos"


def index(folder: Path, *lines: object) -> Path:
    path = folder / "index.jsonl"
    words = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(words) + "\n", "utf-8")
    return path


def test_a_bare_folder_gives_its_videos_sorted_with_the_usual_prompt(folder: Path) -> None:
    data = read_dataset(folder, 10, None)
    assert [clip.name for clip in data.clips] == ["a.mkv", "b.MP4", "deep/c.webm"]
    assert {clip.prompt for clip in data.clips} == {DEFAULT_DESCRIBE_PROMPT}
    assert data.clips[2].path == folder / "deep" / "c.webm"
    assert data.notice is None
    assert len({clip.identity for clip in data.clips}) == 3


def test_a_data_set_may_have_a_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert named_place(f"mine={folder}") == ("mine", folder)
    assert named_place(str(folder)) == (str(folder), folder)
    monkeypatch.chdir(folder)
    (folder / "a=b").mkdir()
    assert named_place("a=b") == ("a=b", Path("a=b"))
    assert named_place("x=a=b") == ("x", Path("a=b"))
    for text in ("=videos", "mine=", "="):
        with pytest.raises(UsageError, match="--dataset takes NAME=DIR, not"):
            named_place(text)


def test_more_clips_than_wanted_are_said_to_be_left_out(folder: Path) -> None:
    data = read_dataset(folder, 2, "What?")
    assert [clip.name for clip in data.clips] == ["a.mkv", "b.MP4"]
    assert data.clips[0].prompt == "What?"
    assert data.notice == "2 of 3 clips are used (--count)"


def test_the_identity_follows_the_content(folder: Path) -> None:
    before = read_dataset(folder, 1, None).clips[0].identity
    assert read_dataset(folder, 1, None).clips[0].identity == before
    (folder / "a.mkv").write_bytes(b"other content")
    assert read_dataset(folder, 1, None).clips[0].identity != before


def test_a_folder_of_demo_clips_brings_its_truth(tmp_path: Path) -> None:
    write_dataset(tmp_path, 2, seed=5)
    clips = read_dataset(tmp_path, 10, None).clips
    lines = [json.loads(line) for line in (tmp_path / "truth.jsonl").read_text().splitlines()]
    assert [clip.truth for clip in clips] == [line["truth"] for line in lines]
    assert [clip.path for clip in clips] == [tmp_path / line["file"] for line in lines]


def test_a_file_names_videos_relative_to_it_with_prompts_and_questions(folder: Path) -> None:
    path = index(
        folder,
        {"file": "a.mkv", "prompt": "Look.", "truth": {"objects": []}},
        "",
        {"path": "deep/c.webm", "question": "How many?", "answer": "two", "kind": "count"},
        {"file": "b.MP4", "question": "Who?", "prompt": "One word."},
    )
    first, second, third = read_dataset(path, 10, "Answer briefly.").clips
    assert (first.path, first.prompt, first.truth) == (folder / "a.mkv", "Look.", {"objects": []})
    assert second.prompt == "Answer briefly.\nHow many?"
    assert (second.answer, second.question_kind) == ("two", "count")
    assert (third.prompt, third.answer, third.question_kind) == (
        "One word.\nWho?",
        None,
        "question",
    )
    assert read_dataset(folder, 10, None).clips[1].prompt == "How many?"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[]", "line 2: not a JSON object"),
        ({}, "line 2: no 'file'"),
        ({"file": ""}, "line 2: no 'file'"),
        ({"file": 3}, "line 2: 'file' is not text"),
        ({"file": "a.mkv", "truth": "x"}, "line 2: 'truth' is not an object"),
        ({"file": "a.mkv", "question": 1}, "line 2: 'question' is not text"),
    ],
)
def test_a_broken_line_is_named(folder: Path, line: object, message: str) -> None:
    path = index(folder, {"file": "a.mkv"}, line)
    with pytest.raises(InputError, match=message):
        read_dataset(path, 10, None)


def test_what_is_no_data_set_is_told(tmp_path: Path, folder: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageError, match="no data set 'nowhere'"):
        read_dataset(Path("nowhere"), 10, None)
    with pytest.raises(InputError, match="holds no video"):
        read_dataset(empty, 10, None)
    for name in ("one.jsonl", "two.jsonl"):
        (folder / name).write_text("")
    with pytest.raises(UsageError, match="several JSONL files"):
        read_dataset(folder, 10, None)
    with pytest.raises(InputError, match=r"one\.jsonl holds no video"):
        read_dataset(folder / "one.jsonl", 10, None)
    (folder / "one.jsonl").write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        read_dataset(folder / "one.jsonl", 10, None)


def test_demo_clips_have_about_the_wanted_length(geometry: QwenVLGeometry, tmp_path: Path) -> None:
    wide = World(
        frame_sizes=((112, 112, 0.5), (224, 112, 0.5), (112, 224, 0.5)), durations_s=(2.0, 4.0, 9.0)
    )
    for wanted, expected in ((30, 32), (128, 128), (300, 288), (5000, 288), (1, 32)):
        narrowed, tokens = world_of_length(geometry, VIDEO, wanted, wide)
        assert tokens == expected
    assert {kind[:3] for kind in narrowed.lengths} == {(112, 112, 2.0)}
    data = render_dataset(
        tmp_path / "clips", geometry, VIDEO, count=2, seed=3, visual_tokens=130, world=wide
    )
    assert data.visual_tokens == 130
    assert data.notice is None
    for clip in data.clips:
        frames = load_frames(clip.path, VIDEO, geometry.frame_size).rgb
        assert geometry.visual_tokens(len(frames), *frames.shape[1:3]) == 128
        assert clip.truth is not None
        assert clip.truth["size"] == [frames.shape[2], frames.shape[1]]


def test_questions_come_with_their_clip(geometry: QwenVLGeometry, tmp_path: Path) -> None:
    data = render_dataset(
        tmp_path, geometry, VIDEO, count=2, seed=5, visual_tokens=100, world=RICH_WORLD, ask=True
    )
    captions = [clip for clip in data.clips if clip.answer is None]
    asked = [clip for clip in data.clips if clip.answer is not None]
    assert len(captions) == 2
    assert {clip.path for clip in asked} == {clip.path for clip in captions}
    assert {"colour", "count", "motion", "yes/no"} <= {clip.question_kind for clip in asked}
    assert all(clip.truth and clip.prompt.count("?") == 1 for clip in asked)
    assert len({clip.name for clip in data.clips}) == len(data.clips)


def test_the_same_seed_renders_the_same_clips(geometry: QwenVLGeometry, tmp_path: Path) -> None:
    one, two = (
        render_dataset(
            tmp_path / name, geometry, VIDEO, count=2, seed=seed, visual_tokens=48, prompt="Say."
        )
        for name, seed in (("one", 7), ("two", 8))
    )
    assert one.clips[1].identity == two.clips[0].identity
    assert one.clips[0].identity != one.clips[1].identity
    assert one.clips[1].truth == two.clips[0].truth
    assert (one.clips[0].name, one.clips[0].prompt) == ("demo 7", "Say.")


def test_a_length_that_no_clip_has_is_said(geometry: QwenVLGeometry, tmp_path: Path) -> None:
    data = render_dataset(
        tmp_path, geometry, VIDEO, count=1, seed=0, visual_tokens=20_000, world=FIRST_WORLD
    )
    most = max(
        geometry.visual_tokens(round(2 * seconds), height, width)
        for seconds in FIRST_WORLD.durations_s
        for width, height, _ in FIRST_WORLD.frame_sizes
    )
    assert data.notice == f"no demo clip has about 20000 visual tokens; these have {most}"


def test_a_range_behind_every_clip_is_an_input_error(geometry: QwenVLGeometry) -> None:
    with pytest.raises(InputError, match="past the end"):
        world_of_length(geometry, VideoSettings(start_s=1000.0), 100, FIRST_WORLD)
    _, tokens = world_of_length(geometry, VideoSettings(start_s=4.5), 100, FIRST_WORLD)
    assert 0 < tokens < 48
