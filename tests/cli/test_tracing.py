"""``--trace``, with a captioner that writes one event."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.fakes import FakeCaptioner, FakeFrames
from vidcap.trace import Trace


class TracingCaptioner(FakeCaptioner):
    """Notes what it opens."""

    trace: Trace | None = None

    def record_trace(self, trace: Trace) -> None:
        self.trace = trace

    def open_frames(self, path: str, frames: FakeFrames, **times: float) -> Any:
        if self.trace is None:
            return super().open_frames(path, frames, **times)
        with self.trace.span(f"open {path}"):
            return super().open_frames(path, frames, **times)


def names(path):
    events = json.loads(path.read_text("utf-8"))["traceEvents"]
    return [event["name"] for event in events if event["ph"] == "X"]


def test_the_trace_of_all_videos_is_written_beside_the_answers(cli, clip, tmp_path):
    cli.fake(TracingCaptioner)
    path = tmp_path / "t.json"
    files = [clip("a.mp4"), clip("b.mp4")]
    result = cli("describe", "--trace", path, *files)
    assert result.exit_code == 0
    assert names(path) == [f"open {file}" for file in files]
    assert cli("ask", "--trace", path, files[0], "Why?").exit_code == 0
    assert names(path) == [f"open {files[0]}"]


def test_without_the_option_nothing_is_recorded(cli, clip):
    cli.fake(TracingCaptioner)
    assert cli("describe", clip("a.mp4")).exit_code == 0
    assert cli.made[0].trace is None


def test_a_run_that_fails_leaves_its_trace(cli, clip, tmp_path):
    cli.fake(TracingCaptioner)
    path = tmp_path / "t.json"
    assert cli("describe", "--trace", path, clip("oom.mp4")).exit_code == 3
    assert len(names(path)) == 1


def test_a_place_that_is_none_is_told_before_the_work(cli, clip, tmp_path):
    cli.fake(TracingCaptioner)
    for where, words in ((tmp_path, "is a folder"), (tmp_path / "no" / "t.json", "no folder")):
        result = cli("describe", "--trace", where, clip("a.mp4"))
        assert result.exit_code == 2
        assert words in result.stderr
    assert cli.made == []


def test_other_processes_are_not_traced(cli, clip, tmp_path):
    result = cli("describe", "--trace", tmp_path / "t.json", "--ray", "local", clip("a.mp4"))
    assert result.exit_code == 2
    assert "--trace shows this process" in result.stderr
