from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from tests.cli.fakes import WORDS, FakeCaptioner
from vidcap.errors import ModelError
from vidcap.output.record import record_schema
from vidcap.settings import DEFAULT_DESCRIBE_PROMPT

TEXT = "".join(WORDS)


def test_one_video_gives_the_caption_alone_on_stdout(cli, clip):
    result = cli("describe", clip("a.mp4"))
    assert result.exit_code == 0
    assert result.stdout == TEXT + "\n"
    assert result.stderr == "vidcap: notice: the fake pair sees nothing\n"


def test_the_video_is_decoded_ahead_of_loading_and_the_pair_loaded_before_opening(cli, clip):
    cli("describe", clip("a.mp4"))
    assert cli.calls == [
        ("prefetch", "a.mp4"),
        ("load",),
        ("open", "a.mp4"),
        ("answer", DEFAULT_DESCRIBE_PROMPT),
        ("close", "a.mp4"),
    ]


def test_several_videos_are_headed_by_their_paths(cli, clip):
    one, two = clip("one.mp4"), clip("two.mkv")
    result = cli("describe", one, two)
    assert result.stdout == f"==> {one} <==\n{TEXT}\n\n==> {two} <==\n{TEXT}\n"
    assert result.exit_code == 0


@pytest.mark.parametrize("flag", ["--stream", "--no-stream"])
def test_streamed_or_not_the_text_is_the_same(cli, clip, flag):
    one, two = clip("one.mp4"), clip("two.mkv")
    result = cli("describe", flag, one, two)
    assert result.stdout == f"==> {one} <==\n{TEXT}\n\n==> {two} <==\n{TEXT}\n"


def test_an_answer_without_words_is_an_empty_line(cli, clip):
    cli.fake(words=[])
    assert cli("describe", clip("a.mp4")).stdout == "\n"


def test_markup_and_long_lines_reach_stdout_untouched(cli, clip):
    words = ["[bold]not markup[/x] ", ":smile: ", "very " * 60, "[id]\n", "http://example.org "]
    cli.fake(words=words)
    assert cli("describe", clip("a.mp4")).stdout == "".join(words) + "\n"


def test_a_failed_input_is_one_line_with_a_hint_and_the_others_are_done(cli, clip):
    broken, good = clip("broken.mp4"), clip("good.mp4")
    result = cli("describe", "-q", broken, good)
    assert result.exit_code == 1
    assert result.stdout == f"==> {good} <==\n{TEXT}\n"
    assert result.stderr == (
        f"vidcap: error: {broken}: no video stream (audio only)\nhint: is it a song?\n"
    )


def test_a_missing_file_is_told_before_anything_is_loaded(cli, tmp_path):
    result = cli("describe", tmp_path / "no.mp4")
    assert result.exit_code == 1
    assert result.stderr == f"vidcap: error: {tmp_path / 'no.mp4'}: no such file\n"
    assert cli.calls == []


def test_a_folder_without_videos_is_an_error(cli, tmp_path):
    (tmp_path / "notes.txt").touch()
    for form, printed in (("text", ""), ("json", "[]\n"), ("jsonl", "")):
        result = cli("describe", "--format", form, tmp_path)
        assert (result.exit_code, result.stdout) == (1, printed)
        assert result.stderr == f"vidcap: error: {tmp_path}: the folder holds no video\n"
    assert cli.calls == []


def test_a_missing_pair_ends_with_3_and_prints_no_answer(cli, clip):
    def no_pair(*settings, calls):
        raise ModelError("no pair is cached", hint="vidcap describe --pair demo")

    cli.fake(no_pair)
    result = cli("describe", "--format", "json", clip("a.mp4"))
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == (
        "vidcap: error: no pair is cached\nhint: vidcap describe --pair demo\n"
    )


def test_what_ends_the_run_keeps_the_records_before_it_valid(cli, clip):
    result = cli("describe", "--format", "json", clip("a.mp4"), clip("oom.mp4"), clip("b.mp4"))
    assert result.exit_code == 3
    assert [record["status"] for record in json.loads(result.stdout)] == ["ok"]
    assert "vidcap: error: out of memory at one frame\n" in result.stderr


def test_a_failure_to_load_of_any_kind_ends_with_3(cli, clip, monkeypatch):
    def load(self):
        raise ImportError("libcudart.so: cannot open")

    monkeypatch.setattr("tests.cli.fakes.FakeCaptioner.load", load)
    result = cli("describe", "-q", clip("a.mp4"))
    assert result.exit_code == 3
    assert result.stderr.startswith("vidcap: error: a package is missing or broken: libcudart.so")


def test_an_unforeseen_failure_costs_one_input_and_ends_its_line(cli, clip):
    bug, good = clip("bug.mp4"), clip("good.mp4")
    result = cli("describe", "-q", bug, good)
    assert result.exit_code == 1
    assert result.stdout == f"==> {bug} <==\n{WORDS[0]}\n\n==> {good} <==\n{TEXT}\n"
    lines = result.stderr.splitlines()
    assert lines[0] == f"vidcap: error: {bug}: internal error: KeyError: 'a bug'"
    assert lines[1].startswith("hint: run it again with --debug")


def test_debug_adds_the_traceback(cli, clip):
    result = cli("describe", "--debug", clip("bug.mp4"))
    assert "Traceback (most recent call last)" in result.stderr
    assert 'KeyError("a bug")' in result.stderr
    assert "Traceback" not in cli("describe", clip("bug.mp4")).stderr


def test_warnings_have_the_form_of_errors_and_quiet_drops_them(cli, clip):
    path = clip("warn.mp4")
    assert f"vidcap: warning: {path}: decoded 0.5 s of 3.0 s\n" in cli("describe", path).stderr
    quiet = cli("describe", "-q", path)
    assert (quiet.exit_code, quiet.stderr) == (0, "")


def test_speculation_that_was_switched_off_is_said_once(cli, clip):
    paths = [clip("loses.mp4"), clip("loses again.mp4")]
    notice = "vidcap: notice: drafting was switched off, because it does not pay\n"
    assert cli("describe", *paths).stderr.count(notice) == 1
    assert notice not in cli("describe", clip("a.mp4")).stderr
    assert notice not in cli("describe", "-q", *paths).stderr


def test_verbose_tells_the_frames_that_were_seen_and_adds_a_line_of_figures(cli, clip):
    path = clip("a.mp4")
    assert (
        f"vidcap: info: {path}: 3 frames at 0.00, 0.50, 1.00 s, read up to 6.0 s of 6.0 s\n"
        f"vidcap: info: {path}: 14 tokens, 1.00 s, 26.0 tokens/s, 3.25 tokens per target call, "
        "ended by stop\n"
    ) in cli("describe", "-v", path).stderr


def test_one_frame_is_no_frames(cli, clip, monkeypatch):
    def finish(self, record):
        return replace(record, video=replace(record.video, frames_used=1, frame_times_s=(0.0,)))

    monkeypatch.setattr(FakeCaptioner, "finish", finish)
    assert ": 1 frame at 0.00 s, read up" in cli("describe", "-v", clip("a.mp4")).stderr


def test_json_is_one_object_for_one_file_and_a_list_for_more(cli, clip):
    one, broken = clip("one.mp4"), clip("broken.mp4")
    single = json.loads(cli("describe", "--format", "json", one).stdout)
    assert (single["path"], single["text"]) == (str(one), TEXT)
    several = cli("describe", "--format", "json", one, broken)
    records = json.loads(several.stdout)
    assert [record["status"] for record in records] == ["ok", "error"]
    assert records[1]["error"] == {
        "type": "InputError",
        "message": "no video stream (audio only)",
        "hint": "is it a song?",
    }
    assert several.exit_code == 1
    for record in [single, *records]:
        jsonschema.validate(record, record_schema())


def test_jsonl_is_one_record_a_line(cli, clip):
    result = cli("describe", "--format", "jsonl", clip("one.mp4"), clip("two.mp4"))
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["path"].rsplit("/", 1)[-1] for record in records] == ["one.mp4", "two.mp4"]


def test_the_prompt_is_taken_from_the_option_or_from_a_file(cli, clip, tmp_path):
    (tmp_path / "p.txt").write_text("Was geschieht hier?\n", "utf-8")
    cli("describe", "--prompt", "What happens?", clip("a.mp4"))
    cli("describe", "--prompt", f"@{tmp_path / 'p.txt'}", clip("a.mp4"))
    prompts = [call[1] for call in cli.calls if call[0] == "answer"]
    assert prompts == ["What happens?", "Was geschieht hier?"]


def test_profile_goes_to_stderr_and_leaves_stdout_alone(cli, clip):
    result = cli("describe", "--profile", clip("a.mp4"))
    assert result.stdout == TEXT + "\n"
    for words in ("target prefill", "0.200", "20 %", "vidcap_split", "per target call: 3.25"):
        assert words in result.stderr
