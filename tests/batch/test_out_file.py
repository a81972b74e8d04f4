"""The file that grows: what it holds after it was cut anywhere, and what it takes for done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.batch.made import job, record, wanted
from vidcap.batch.line_forms import line_form
from vidcap.batch.out_file import FileSink
from vidcap.errors import UsageError
from vidcap.output.record import ErrorPart
from vidcap.output.streams import OutputError


def fill(sink, videos):
    """What a run does with the videos."""
    for video in videos:
        if sink.missing(job(video), wanted()):
            sink.begin(str(video), None)
            sink.end(record(video))
            sink.finish(job(video))
    sink.close()


@pytest.mark.parametrize("form", ["jsonl", "tsv"])
def test_a_run_killed_after_any_byte_is_gone_on_with(tmp_path, videos, form):
    whole = tmp_path / "whole"
    fill(FileSink(whole, line_form(form)), videos)
    content = whole.read_bytes()
    ends = [place + 1 for place, byte in enumerate(content) if byte == 10]
    near = {end + step for end in ends for step in (-2, -1, 0, 1)}
    for cut in sorted({*range(0, len(content), 37), *near, *range(40)} - {len(content) + 1}):
        out = tmp_path / "cut"
        out.write_bytes(content[:cut])
        sink = FileSink(out, line_form(form))
        # Complete records are known, what is left behind them is gone.
        left = out.read_bytes()
        assert content.startswith(left)
        missing = [video for video in videos if sink.missing(job(video), wanted())]
        assert len(missing) == 3 - sum(f"{video}".encode() in left for video in videos)
        fill(sink, videos)
        assert out.read_bytes() == content


@pytest.mark.parametrize("form", ["jsonl", "tsv"])
def test_content_and_settings_decide_and_the_path(tmp_path, videos, form):
    out = tmp_path / "out"
    fill(FileSink(out, line_form(form)), videos[:1])
    sink = FileSink(out, line_form(form))
    assert list(sink.missing(job(videos[0]), wanted())) == []
    assert list(sink.missing(job(videos[0]), wanted("q"))) == [0]
    assert list(sink.missing(job(videos[0]), wanted("p", "t"))) == [0]
    assert list(sink.missing(job(videos[1]), wanted())) == [0]
    videos[0].unlink()
    assert list(sink.missing(job(videos[1]), wanted())) == []


@pytest.mark.parametrize("form", ["jsonl", "tsv"])
@pytest.mark.parametrize(
    "better_than",
    [
        {"status": "error", "error": ErrorPart("E", "m")},
        {"finish_reason": "interrupted"},
    ],
)
def test_what_did_not_finish_is_replaced_when_it_does(tmp_path, videos, form, better_than):
    out, expected = tmp_path / "out", tmp_path / "expected"
    sink = FileSink(out, line_form(form))
    sink.end(record(videos[0], **better_than))
    sink.end(record(videos[1]))
    sink.close()
    sink = FileSink(out, line_form(form))
    assert list(sink.missing(job(videos[0]), wanted())) == [0]
    sink.end(record(videos[0]))
    sink.close()
    reference = FileSink(expected, line_form(form))
    for video in (videos[1], videos[0]):
        reference.end(record(video))
    reference.close()
    assert out.read_bytes() == expected.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["expected", "in", "out"]


def test_what_did_not_finish_stays_while_nothing_better_has_come(tmp_path, videos):
    out = tmp_path / "out"
    sink = FileSink(out, line_form("jsonl"))
    sink.end(record(videos[0], finish_reason="interrupted"))
    sink.close()
    sink = FileSink(out, line_form("jsonl"))
    sink.end(record(videos[1]))
    sink.close()
    assert len(out.read_bytes().splitlines()) == 2


def test_two_runs_on_one_file_lose_nothing(tmp_path, videos):
    out = tmp_path / "out"
    first = FileSink(out, line_form("jsonl"))
    first.end(record(videos[0], finish_reason="interrupted"))
    second = FileSink(out, line_form("jsonl"))
    second.end(record(videos[1]))
    first.end(record(videos[0]))
    first.close()
    second.close()
    assert len(out.read_bytes().splitlines()) == 3


def test_paths_of_any_bytes_are_known_again(tmp_path):
    path = tmp_path / b"caf\xe9\t\\.mp4".decode("utf-8", "surrogateescape")
    path.touch()
    for form in ("jsonl", "tsv"):
        out = tmp_path / f"out.{form}"
        fill(FileSink(out, line_form(form)), [path])
        assert list(FileSink(out, line_form(form)).missing(job(path), wanted())) == []
        out.read_text("utf-8")


def test_a_torn_end_that_vidcap_did_not_write_is_an_error(tmp_path):
    for form, content in (("jsonl", b'{"schema'), ("tsv", b"path\tquest")):
        out = tmp_path / form
        out.write_bytes(content)
        FileSink(out, line_form(form)).close()
        assert out.read_bytes() == b""
        out.write_bytes(b"dear diary")
        with pytest.raises(UsageError, match="line 1"):
            FileSink(out, line_form(form))
        assert out.read_bytes() == b"dear diary"


def test_a_full_disk_is_an_output_error(videos):
    sink = FileSink(Path("/dev/full"), line_form("jsonl"))
    with pytest.raises(OutputError, match="No space left"):
        sink.end(record(videos[0]))
