"""The folder of answers: names that never collide, files that are whole or not there."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.batch.made import job, record, wanted
from vidcap.batch.jobs import Job
from vidcap.batch.out_dir import JOURNAL, FolderSink
from vidcap.errors import UsageError
from vidcap.output.streams import OutputError


class Killed(BaseException):
    """Ends a run as SIGKILL does: nothing is cleaned up."""


def write(sink, video, content="p"):
    """What a run does with a video; False where it is done already."""
    if not sink.missing(job(video), wanted(content)):
        return False
    sink.end(record(video, content))
    sink.finish(job(video))
    return True


def sink(folder, form="json", **how):
    return FolderSink(folder, form, questions=1, **how)


STEPS = ("write_text", "open", "replace", None)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("known", [False, True])
def test_a_run_killed_at_any_step_is_gone_on_with(tmp_path, videos, monkeypatch, step, when, known):
    out = tmp_path / "out"
    if known:
        write(sink(out), videos[0], "old")
    with monkeypatch.context() as patch:
        if step is not None:
            _kill_at(patch, step, when)
        with contextlib.suppress(Killed):
            write(sink(out), videos[0])
    finished = step is None or (step, when) == ("replace", "after")
    place = out / "0.mp4.json"
    assert not place.exists() or json.loads(place.read_text("utf-8"))
    assert write(sink(out), videos[0]) is not finished
    assert json.loads(place.read_text("utf-8"))["source"]["fingerprint"] == "p"
    assert write(sink(out), videos[0]) is False
    assert sorted(path.name for path in out.iterdir()) == [JOURNAL, "0.mp4.json"]


def _kill_at(patch, step, when):
    owner = os if step == "replace" else Path
    original = getattr(owner, step)

    def killed(*args, **kwargs):
        if step == "open" and args[1:] != ("ab",):
            return original(*args, **kwargs)
        if when == "after":
            result = original(*args, **kwargs)
            if step == "open":
                result.close()
        raise Killed

    patch.setattr(owner, step, killed)


def test_a_torn_line_of_the_journal_costs_that_line_only(tmp_path, videos):
    out = tmp_path / "out"
    for video in videos[:2]:
        write(sink(out), video)
    journal = out / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-9])
    assert [write(sink(out), video) for video in videos] == [False, True, True]
    assert [write(sink(out), video) for video in videos] == [False, False, False]


def test_a_lost_journal_costs_work_but_no_answers(tmp_path, videos):
    out = tmp_path / "out"
    write(sink(out), videos[0])
    (out / JOURNAL).unlink()
    assert write(sink(out), videos[0]) is True


def test_equal_names_from_several_folders_find_places_of_their_own(tmp_path):
    folders = [tmp_path / "a/x", tmp_path / "b/x", tmp_path / "c"]
    clips = [folder / "clip.mp4" for folder in folders]
    for clip in clips:
        clip.parent.mkdir(parents=True)
        clip.touch()
    out = tmp_path / "out"
    for turn in (clips, clips[::-1]):
        # The next run finds them again, in whatever order it comes along.
        results = [write(sink(out), clip) for clip in turn]
        assert results == [turn is clips] * 3
    found = {
        json.loads(path.read_text("utf-8"))["path"]: str(path.relative_to(out))
        for path in out.rglob("*.json")
    }
    assert found == {
        str(clips[0]): "clip.mp4.json",
        str(clips[1]): "x/clip.mp4.json",
        str(clips[2]): "c/clip.mp4.json",
    }


def test_equal_names_in_one_run_find_places_of_their_own(tmp_path):
    (tmp_path / "a").mkdir()
    paths = [tmp_path / "clip.mp4", tmp_path / "a/clip.mp4"]
    for path in paths:
        path.touch()
    one = sink(tmp_path / "out", "text")
    assert [write(one, path) for path in paths] == [True, True]
    names = sorted(path.name for path in (tmp_path / "out").rglob("*.txt"))
    assert len(names) == 2


def test_a_name_is_free_again_once_its_video_is_gone(tmp_path, videos):
    out = tmp_path / "out"
    write(sink(out), videos[0])
    moved = tmp_path / "elsewhere"
    shutil.move(videos[0].parent, moved)
    assert write(sink(out), moved / "0.mp4") is False
    assert write(sink(out), moved / "0.mp4", "changed") is True
    assert len(list(out.rglob("*.json"))) == 1


def test_a_video_on_standard_input_has_a_name(tmp_path):
    copy = tmp_path / "copy"
    copy.touch()
    one = sink(tmp_path / "out", "text")
    stdin = Job("-", str(copy), "-")
    assert one.missing(stdin, wanted())
    one.end(record("-"))
    one.finish(stdin)
    assert (tmp_path / "out/stdin.txt").exists()


def test_a_folder_that_cannot_be_used_is_said_at_once_or_where_it_shows(
    tmp_path, videos, monkeypatch
):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="Not a directory"):
        sink(tmp_path / "file" / "out")

    def refuse(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OutputError, match="No space left"):
        write(sink(tmp_path / "out"), videos[0])


def test_names_of_any_bytes_are_mirrored(tmp_path):
    raw = os.fsencode(tmp_path) + b"/caf\xe9.mp4"
    with open(raw, "wb"):
        pass
    out = tmp_path / "out"
    path = os.fsdecode(raw)
    assert write(sink(out), path) is True
    assert write(sink(out), path) is False
    assert b"caf\xe9.mp4.json" in os.listdir(os.fsencode(out))


@pytest.mark.parametrize("form", ["text", "jsonl"])
@pytest.mark.parametrize("letter", ["a", "猫", "\udce9"])
def test_names_as_long_as_a_file_system_holds_end_no_run(tmp_path, form, letter):
    stem = letter * (250 // len(os.fsencode(letter)))
    paths = [tmp_path / f"{stem[:-1]}{last}.mp4" for last in "12"]
    for path in paths:
        path.touch()
    out = tmp_path / "out"
    assert [write(sink(out, form), path) for path in paths] == [True, True]
    assert [write(sink(out, form), path) for path in paths] == [False, False]
    names = [path.name for path in out.iterdir() if path.name != JOURNAL]
    assert len(names) == 2
    assert all(".mp4." in name and len(os.fsencode(name)) <= 249 for name in names)
