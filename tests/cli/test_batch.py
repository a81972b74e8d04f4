"""Many videos: where they come from, where their answers go, what a second run does."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.cli.fakes import WORDS, FakeCaptioner
from vidcap.errors import ModelError
from vidcap.output.record import record_schema

TEXT = "".join(WORDS)


@pytest.fixture
def tree(tmp_path):
    """A folder of three videos."""
    folder = tmp_path / "videos"
    for name in ("b.mp4", "a/clip.mp4", "a/clip.mkv", ".hidden.mp4", "a/notes.txt"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return folder


def records(text: str) -> list[dict]:
    found = [json.loads(line) for line in text.splitlines()]
    for record in found:
        jsonschema.validate(record, record_schema())
    return found


def names(cli, what: str = "answer") -> list[str]:
    return [call[1] for call in cli.calls if call[0] == what]


def test_a_folder_gives_a_record_per_video_in_order(cli, tree):
    result = cli("describe", "--format", "jsonl", tree)
    assert result.exit_code == 0
    paths = [record["path"] for record in records(result.stdout)]
    assert paths == [f"{tree}/a/clip.mkv", f"{tree}/a/clip.mp4", f"{tree}/b.mp4"]


def test_a_folder_of_one_video_is_headed_and_a_list(cli, tmp_path):
    (tmp_path / "only.mp4").touch()
    assert cli("describe", tmp_path).stdout == f"==> {tmp_path}/only.mp4 <==\n{TEXT}\n"
    assert isinstance(json.loads(cli("describe", "--format", "json", tmp_path).stdout), list)


def test_ask_on_a_folder_gives_a_record_per_video_and_question(cli, tree):
    result = cli("ask", "--format", "jsonl", tree, "One?", "Two?")
    found = [(Path(r["path"]).name, r["question"]) for r in records(result.stdout)]
    assert found == [(n, q) for n in ("clip.mkv", "clip.mp4", "b.mp4") for q in ("One?", "Two?")]
    assert names(cli, "open") == ["clip.mkv", "clip.mp4", "b.mp4"]


def test_the_pair_is_loaded_once_and_videos_are_decoded_ahead_in_turn(cli, tree):
    cli.fake(can_share=True)
    cli("describe", "--prefetch", "2", tree)
    assert cli.calls == [
        ("prefetch", "clip.mkv"),
        ("load",),
        ("ahead", "clip.mp4"),
        ("ahead", "b.mp4"),
        ("open", "clip.mkv"),
        *[call for call in cli.calls if call[0] == "answer"][:1],
        ("close", "clip.mkv"),
        ("prefetch", "clip.mp4"),
        ("ahead", "b.mp4"),
        ("open", "clip.mp4"),
        *[call for call in cli.calls if call[0] == "answer"][:1],
        ("close", "clip.mp4"),
        ("prefetch", "b.mp4"),
        ("open", "b.mp4"),
        *[call for call in cli.calls if call[0] == "answer"][:1],
        ("close", "b.mp4"),
    ]


@pytest.mark.parametrize(
    ("words", "can_share", "ahead"),
    [
        ([], True, ["clip.mp4", "b.mp4"]),
        (["--prefetch", "0"], True, []),
        ([], False, []),
        (["--prefetch", "3"], False, []),
        (["--prefetch", "3", "--every", "10"], True, []),
    ],
)
def test_how_far_ahead_is_up_to_the_user_and_the_threads(cli, tree, words, can_share, ahead):
    cli.fake(can_share=can_share)
    result = cli("describe", tree, *words)
    assert list(dict.fromkeys(names(cli, "ahead"))) == ahead
    told = "--prefetch makes no difference, because" in result.stderr
    assert told is ("3" in words)


def test_what_needs_no_decoding_is_not_decoded_ahead(cli, tree, tmp_path):
    out = tmp_path / "out.jsonl"
    cli("describe", "--out-file", out, tree / "a/clip.mp4")
    cli.calls.clear()
    cli.fake(can_share=True)
    gone = tmp_path / "gone.mp4"
    cli("describe", "--out-file", out, tree / "b.mp4", tree / "a/clip.mp4", gone, tree / "a")
    assert names(cli, "ahead") == ["clip.mkv"]


def test_a_list_names_files_and_folders(cli, tree, tmp_path):
    listing = tmp_path / "list.txt"
    listing.write_text(f"\n{tree}/b.mp4\r\n{tree}/a\n  \n{tmp_path}/none.mp4", "utf-8")
    result = cli("describe", "-q", "--format", "jsonl", "--files-from", listing)
    found = [(Path(record["path"]).name, record["status"]) for record in records(result.stdout)]
    assert found[:3] == [("b.mp4", "ok"), ("clip.mkv", "ok"), ("clip.mp4", "ok")]
    assert [status for _, status in found[3:]] == ["error", "error"]  # "  " is a name, too
    assert result.exit_code == 1


def test_json_of_an_empty_list_or_folder_is_an_empty_list(cli, tmp_path):
    (tmp_path / "list.txt").touch()
    listed = cli("describe", "--format", "json", "--files-from", tmp_path / "list.txt")
    assert (listed.exit_code, json.loads(listed.stdout)) == (0, [])
    folder = cli("describe", "--format", "json", tmp_path)
    assert (folder.exit_code, json.loads(folder.stdout)) == (1, [])


def test_a_list_with_zero_bytes_is_told_apart(cli, tree, tmp_path):
    listing = tmp_path / "list.txt"
    listing.write_bytes(f"{tree}/b.mp4\0{tree}/a/clip.mp4\0".encode())
    result = cli("describe", "-o", tmp_path / "out", "--files-from", listing)
    assert result.exit_code == 1
    assert "b.mp4\\x00" in result.stderr
    assert "hint: lists have one path a line: find -print, not -print0\n" in result.stderr


def test_ask_takes_a_list_in_place_of_its_input(cli, tree, tmp_path):
    listing = tmp_path / "list.txt"
    listing.write_text(f"{tree}/b.mp4\n", "utf-8")
    result = cli("ask", "--format", "jsonl", "--files-from", listing, "One?", "Two?")
    assert [record["question"] for record in records(result.stdout)] == ["One?", "Two?"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["describe"], "missing argument 'INPUT'\nhint: see vidcap describe --help"),
        (["describe", "-", "--files-from", "-"], "'-' and --files-from - both read standard input"),
        (["describe", "-", "-"], "'-' can be given once only"),
        (["describe", "a.mp4", "--files-from", "x"], "--files-from takes the place of INPUT"),
        (["describe", "--files-from", "/none/x"], "--files-from /none/x: No such file"),
        (["describe", "--files-from", "/"], "--files-from / is a folder"),
        (["ask", "--files-from", "-", "-", "1?"], "'-' and --files-from - both read standard"),
        (["describe", "--format", "srt", "a", "b"], "srt of several videos needs --out-dir"),
        (["describe", "--format", "vtt", "/"], "vtt of several videos needs --out-dir"),
        (["describe", "--format", "srt", "--files-from", "-"], "srt of several videos needs"),
        (["ask", "--format", "srt", "a", "1?", "2?"], "srt holds the answers to one question"),
        (["describe", "--overwrite", "a"], "--overwrite needs --out-dir or --out-file"),
        (["describe", "-o", "x", "--out-file", "y", "a"], "--out-dir and --out-file contradict"),
        (["describe", "--out-file", "y", "--format", "srt", "a"], "--out-file holds jsonl or tsv"),
        (["describe", "--out-file", "/none/y.jsonl", "a"], "cannot write /none/y.jsonl: No such"),
        (["describe", "-o", "/dev/null", "a"], "--out-dir /dev/null is not a folder"),
        (["describe", "--every", "0", "a"], "--every must be at least 0.1 s, not 0 s"),
        (["describe", "--every", "soon", "a"], "--every takes a duration such as 30s, 2m or 1:30"),
        (["describe", "--prefetch", "-1", "a"], "invalid value for '--prefetch'"),
        (["ask", "--files-from", "-"], "missing argument 'INPUT'"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_is_loaded(cli, words, message):
    result = cli(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"vidcap: error: {message}")
    assert cli.calls == []


def test_out_dir_mirrors_the_tree_and_keeps_suffixes(cli, tree, tmp_path):
    out = tmp_path / "out"
    result = cli("describe", "--format", "json", "-o", out, tree)
    assert (result.exit_code, result.stdout) == (0, "")
    found = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert found == [".vidcap.jsonl", "a/clip.mkv.json", "a/clip.mp4.json", "b.mp4.json"]
    record = json.loads((out / "a/clip.mkv.json").read_text("utf-8"))
    jsonschema.validate(record, record_schema())
    assert record["path"] == f"{tree}/a/clip.mkv"


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "tsv", "srt", "vtt"])
def test_a_second_run_does_nothing_and_says_so(cli, tree, tmp_path, form):
    out = tmp_path / "out"
    words = ["describe", "--format", form, "-o", out, tree]
    assert cli(*words).exit_code == 0
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    cli.calls.clear()
    again = cli(*words)
    assert (again.exit_code, again.stdout, cli.calls) == (0, "", [])
    assert again.stderr == (
        "vidcap: notice: 3 of 3 were done already; --overwrite does them again\n"
    )
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    cli(*words, "--overwrite")
    assert len(names(cli)) == 3


@pytest.mark.parametrize("form", ["jsonl", "tsv"])
def test_out_file_is_appended_to_and_knows_what_it_holds(cli, tree, tmp_path, form):
    out = tmp_path / f"out.{form}"
    cli("describe", "--out-file", out, tree / "b.mp4")
    first = out.read_text("utf-8")
    result = cli("describe", "--out-file", out, tree)
    assert (result.exit_code, result.stdout) == (0, "")
    assert out.read_text("utf-8").startswith(first)
    assert len(out.read_text("utf-8").splitlines()) == 3 + (form == "tsv")
    assert len(names(cli)) == 3
    assert "1 of 3 were done already" in result.stderr
    cli.calls.clear()
    cli("describe", "--out-file", out, tree, "--overwrite")
    assert len(names(cli)) == 3
    assert len(out.read_text("utf-8").splitlines()) == 3 + (form == "tsv")


@pytest.mark.parametrize("where", ["-o", "--out-file"])
def test_other_settings_another_prompt_or_a_changed_file_are_done_anew(cli, tree, tmp_path, where):
    words = ["describe", where, tmp_path / "out.jsonl", tree]
    cli(*words)
    for more in (["--fps", "1"], ["--prompt", "What?"], ["--every", "10"], ["--max-tokens", "9"]):
        cli.calls.clear()
        cli(*words, *more)
        assert len(names(cli, "open")) == 3
    (tree / "b.mp4").write_bytes(b"another")
    cli.calls.clear()
    cli(*words)
    expected = ["b.mp4"] if where == "--out-file" else ["clip.mkv", "clip.mp4", "b.mp4"]
    assert names(cli, "open") == expected


def test_what_cannot_change_the_text_is_not_done_anew(cli, tree, tmp_path):
    words = ["describe", "-o", tmp_path / "out", tree]
    cli(*words)
    cli.calls.clear()
    cli(*words, "--threads", "1", "--profile", "--method", "plain", "--device", "cpu", "--debug")
    assert cli.calls == []


def test_one_more_question_is_answered_without_the_others(cli, tree, tmp_path):
    words = ["ask", "--out-file", tmp_path / "out.jsonl", tree / "b.mp4"]
    cli(*words, "One?")
    cli(*words, "One?", "Two?")
    assert names(cli) == ["One?", "Two?"]


def test_errors_are_tried_again_and_then_replaced(cli, tree, tmp_path):
    bad = tree / "broken.mp4"
    bad.write_bytes(b"x")
    out = tmp_path / "out.jsonl"
    assert cli("describe", "--out-file", out, tree).exit_code == 1
    assert [r["status"] for r in records(out.read_text())] == ["ok", "ok", "ok", "error"]
    assert cli("describe", "--out-file", out, tree).exit_code == 1
    assert [r["status"] for r in records(out.read_text())] == ["ok", "ok", "ok", "error"]
    cli.fake(_Mended)
    assert cli("describe", "--out-file", out, tree).exit_code == 0
    assert [r["status"] for r in records(out.read_text())] == ["ok"] * 4
    assert names(cli, "open")[3:] == ["broken.mp4", "whole.mp4"]


class _Mended(FakeCaptioner):
    def check(self, path):
        pass

    def windows(self, path):
        return super().windows(path.replace("broken", "whole"))


@pytest.mark.parametrize("form", ["json", "text", "srt"])
def test_a_failed_video_is_tried_again_in_a_folder_too(cli, tree, tmp_path, form):
    (tree / "broken.mp4").write_bytes(b"x")
    out = tmp_path / "out"
    words = ["describe", "-q", "--format", form, "-o", out, tree]
    assert cli(*words).exit_code == 1
    assert (out / "broken.mp4.json").exists() is (form == "json")
    cli.calls.clear()
    assert cli(*words).exit_code == 1
    # Nothing is loaded only to find out that there is still no video.
    assert cli.calls == [("prefetch", "broken.mp4")]
    cli.fake(_Mended)
    assert cli(*words).exit_code == 0
    assert (out / f"broken.mp4.{'txt' if form == 'text' else form}").read_text("utf-8")


def test_an_error_with_other_settings_does_not_pass_for_the_answer_it_replaced(cli, tree, tmp_path):
    words = ["describe", "-q", "--format", "json", "-o", tmp_path / "out", tree / "b.mp4"]
    cli(*words)

    class Fails(FakeCaptioner):
        def windows(self, path):
            raise KeyError("x")

    cli.fake(Fails)
    assert cli(*words, "--fps", "1").exit_code == 1
    cli.fake()
    cli.calls.clear()
    cli(*words)
    assert names(cli, "open") == ["b.mp4"]


def test_a_file_that_was_deleted_is_made_again_and_an_edited_one_is_left_alone(cli, tree, tmp_path):
    out = tmp_path / "out"
    cli("describe", "-o", out, tree)
    (out / "b.mp4.txt").unlink()
    (out / "a/clip.mkv.txt").write_text("corrected by hand\n")
    cli.calls.clear()
    cli("describe", "-o", out, tree)
    assert names(cli, "open") == ["b.mp4"]
    assert (out / "a/clip.mkv.txt").read_text() == "corrected by hand\n"


def test_the_same_input_twice_is_done_once(cli, clip, tmp_path):
    path = clip("a.mp4")
    cli("describe", "--out-file", tmp_path / "o.jsonl", path, path, tmp_path / "." / "a.mp4")
    assert len(names(cli)) == 1


def test_copies_of_a_video_have_records_of_their_own(cli, clip, tmp_path):
    import shutil

    shutil.copy2(clip("a.mp4"), tmp_path / "b.mp4")
    out = tmp_path / "o.jsonl"
    cli("describe", "--out-file", out, tmp_path)
    assert [Path(record["path"]).name for record in records(out.read_text())] == ["a.mp4", "b.mp4"]


def test_a_video_that_was_moved_is_known_by_its_content(cli, tree, tmp_path):
    for where in (["--out-file", tmp_path / "o.jsonl"], ["-o", tmp_path / "out"]):
        cli("describe", *where, tree)
    tree = tree.rename(tmp_path / "moved")
    cli.calls.clear()
    for where in (["--out-file", tmp_path / "o.jsonl"], ["-o", tmp_path / "out"]):
        cli("describe", *where, tree)
    assert cli.calls == []


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('{"a": 1}\n', 1),
        ("hello\n", 1),
        ("hello", 1),
        ("[]\n", 1),
        ("\n", 1),
        ('{"schema_version": 1}\n{"x', 1),
    ],
)
def test_a_file_of_something_else_is_left_alone(cli, tree, tmp_path, content, line):
    for name in ("x.jsonl", "x.tsv"):
        out = tmp_path / name
        out.write_text(content)
        result = cli("describe", "--out-file", out, tree)
        assert result.exit_code == 2
        assert f"{out}, line {line}: no" in result.stderr
        assert out.read_text() == content
    assert cli.calls == []


def test_overwrite_keeps_the_old_file_until_there_is_something_new(cli, tree, tmp_path):
    out = tmp_path / "o.jsonl"
    cli("describe", "--out-file", out, tree)
    before = out.read_text()

    class NoModel(FakeCaptioner):
        def load(self):
            raise ModelError("not enough memory")

    cli.fake(NoModel)
    assert cli("describe", "--out-file", out, "--overwrite", tree).exit_code == 3
    assert out.read_text() == before


def test_a_missing_pair_makes_no_file(cli, tree, tmp_path):
    def no_pair(*settings, calls):
        raise ModelError("no pair is cached")

    cli.fake(no_pair)
    for where in ("-o", "--out-file"):
        assert cli("describe", where, tmp_path / "out", tree).exit_code == 3
        assert not (tmp_path / "out").exists()


def test_standard_input_is_one_video_and_its_copy_is_removed(cli, tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    seen = []

    class Looks(FakeCaptioner):
        def windows(self, path):
            seen.append((Path(path).read_bytes(), Path(path).is_relative_to(tmp_path)))
            return super().windows(path)

    cli.fake(Looks)
    out = tmp_path / "o.jsonl"
    for _ in range(2):
        result = cli("describe", "--out-file", out, "-", input=b"a video")
        assert result.exit_code == 0
    assert seen == [(b"a video", True)]
    (record,) = records(out.read_text())
    assert (record["path"], record["source"]["size"]) == ("-", 7)
    assert list((tmp_path / "temp").iterdir()) == []
    cli("describe", "-o", tmp_path / "out", "-", input=b"a video")
    assert (tmp_path / "out/stdin.txt").read_text() == TEXT + "\n"


def test_memory_that_runs_out_is_tried_again_with_half_the_frames(cli, clip):
    path = clip("big.mp4")
    result = cli("describe", "--format", "json", path)
    assert result.exit_code == 0
    note = "out of memory with 4 frames, done with 2"
    assert json.loads(result.stdout)["warnings"] == [note]
    assert f"vidcap: warning: {path}: {note}\n" in result.stderr


def test_memory_that_runs_out_at_half_too_costs_one_input(cli, clip):
    huge, good = clip("huge.mp4"), clip("good.mp4")
    result = cli("describe", "-q", "--format", "jsonl", huge, good)
    assert result.exit_code == 1
    first, second = records(result.stdout)
    assert first["error"]["message"] == "out of memory, with half of its 4 frames too"
    assert second["status"] == "ok"
    assert [call for call in cli.calls if call[0] == "short"] == [("short", 4), ("short", 2)]


def test_memory_that_runs_out_at_one_frame_ends_the_run(cli, clip):
    from tests.cli.fakes import FakeFrames, FakeWindow

    class Single(FakeCaptioner):
        def windows(self, path):
            yield FakeWindow(0, 1, FakeFrames((0.0,)))

    cli.fake(Single)
    result = cli("describe", "-q", clip("huge.mp4"), clip("good.mp4"))
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("vidcap: error: out of memory at one frame\n")
