"""``--every``: one caption per window, in every format."""

from __future__ import annotations

import json

import jsonschema
import pytest
import srt
import webvtt

from tests.cli.fakes import WORDS, FakeCaptioner, FakeSession
from vidcap.cli.values import parse_duration
from vidcap.errors import MemoryShortError, UsageError
from vidcap.output.record import record_schema

TEXT = "".join(WORDS)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("30s", 30),
        ("0.5s", 0.5),
        ("2m", 120),
        ("2M", 120),
        ("1h30m", 5400),
        ("1m30.5s", 90.5),
        ("1:30", 90),
        ("00:01:30.250", 90.25),
    ],
)
def test_durations_are_typed_as_people_type_them(text, seconds):
    assert parse_duration(text, "--every") == seconds


@pytest.mark.parametrize("text", ["", " ", "m", "s30", "30x", "1:2:3:4", "2.5m", "30s2m"])
def test_what_is_no_duration_is_a_usage_error(text):
    with pytest.raises(UsageError, match="--every takes a duration"):
        parse_duration(text, "--every")


def test_text_is_headed_by_the_times_of_each_window(cli, clip):
    path = clip("a.mp4")
    expected = "".join(f"[00:00:{start:02} - 00:00:{start + 20:02}] {TEXT}\n" for start in (0, 20))
    expected += f"[00:00:40 - 00:01:00] {TEXT}\n"
    for flag in ("--stream", "--no-stream"):
        assert cli("describe", "--every", "20s", flag, path).stdout == expected


def test_it_is_one_record_with_segments(cli, clip):
    record = json.loads(
        cli("describe", "--every", "0:20", "--format", "json", clip("a.mp4")).stdout
    )
    jsonschema.validate(record, record_schema())
    assert [(s["start_s"], s["end_s"], s["text"]) for s in record["segments"]] == [
        (0, 20, TEXT),
        (20, 40, TEXT),
        (40, 60, TEXT),
    ]
    assert record["text"] == "\n".join([TEXT] * 3)
    assert record["tokens"]["generated"] == 3 * 14


def test_the_window_is_a_setting_of_the_video(cli, clip):
    cli("describe", "--every", "1:30", clip("a.mp4"))
    assert cli.made[0].video.every_s == 90


@pytest.mark.parametrize("where", ["stdout", "folder"])
def test_subtitles_are_read_by_their_parsers(cli, clip, tmp_path, where):
    for form, parse in (("srt", _srt), ("vtt", _vtt)):
        words = ["describe", "--every", "20", "--format", form, clip("a.mp4")]
        if where == "folder":
            words += ["-o", tmp_path / "out"]
        result = cli(*words)
        text = result.stdout
        if where == "folder":
            text = (tmp_path / f"out/a.mp4.{form}").read_text("utf-8")
        assert parse(text) == [(0, 20, TEXT), (20, 40, TEXT), (40, 60, TEXT)]


def _srt(text):
    return [
        (cue.start.total_seconds(), cue.end.total_seconds(), cue.content)
        for cue in srt.parse(text, ignore_errors=False)
    ]


def _vtt(text):
    cues = webvtt.from_string(text)
    return [(cue.start_in_seconds, cue.end_in_seconds, cue.text) for cue in cues]


def test_several_questions_are_answered_window_by_window(cli, clip):
    result = cli("ask", "--every", "20", "--format", "jsonl", clip("a.mp4"), "One?", "Two?")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(r["question"], len(r["segments"])) for r in records] == [("One?", 3), ("Two?", 3)]
    prompts = [call[1] for call in cli.calls if call[0] == "answer"]
    assert prompts == ["One?", "Two?"] * 3
    text = cli("ask", "--every", "20", clip("a.mp4"), "One?", "Two?").stdout
    assert text.startswith(f"--> One? <--\n[00:00:00 - 00:00:20] {TEXT}\n")


def test_a_window_too_large_for_memory_is_halved_by_itself(cli, clip):
    result = cli("describe", "--every", "20", "--format", "json", clip("big.mp4"))
    record = json.loads(result.stdout)
    assert len(record["segments"]) == 3
    assert record["warnings"] == ["out of memory with 4 frames, done with 2"]
    assert [call[1] for call in cli.calls if call[0] == "short"] == [4, 4, 4]


@pytest.mark.parametrize("said", ["", "A red"])
def test_the_times_stand_once_before_a_window_that_is_tried_again(cli, clip, monkeypatch, said):
    original, short = FakeSession.answer, [said]

    def answer(self, prompt, **how):
        if short:
            how["on_text"](short.pop())
            raise MemoryShortError("out of memory")
        return original(self, prompt, **how)

    monkeypatch.setattr(FakeSession, "answer", answer)
    lines = cli("describe", "--every", "20s", clip("a.mp4")).stdout.splitlines()
    times = "[00:00:00 - 00:00:20]"
    assert lines[:-2] == [f"{times} {words}" for words in (said, TEXT) if words]


def test_a_video_that_ends_too_soon_keeps_its_windows(cli, clip):
    from tests.cli.fakes import FakeFrames, FakeWindow

    class Cut(FakeCaptioner):
        def windows(self, path):
            yield FakeWindow(0, 20)
            yield FakeWindow(20, 20, FakeFrames((), ("decoded 20.0 s of 60.0 s",)))

    cli.fake(Cut)
    result = cli("describe", "--every", "20", "--format", "json", clip("a.mp4"))
    record = json.loads(result.stdout)
    assert len(record["segments"]) == 1
    assert record["warnings"] == ["decoded 20.0 s of 60.0 s"]


def test_a_window_that_fails_costs_the_video_and_no_other(cli, clip):
    class Fails(FakeCaptioner):
        def windows(self, path):
            windows = super().windows(path)
            yield next(windows)
            if "bad" in path:
                raise KeyError("x")
            yield from windows

    cli.fake(Fails)
    bad, good = clip("bad.mp4"), clip("good.mp4")
    result = cli("describe", "-q", "--every", "20", "--format", "jsonl", bad, good)
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["status"] for record in records] == ["error", "ok"]
    assert result.exit_code == 1
