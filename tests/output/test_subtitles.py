"""Subtitles and tables, read back by the parsers that other people use."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest
import srt
import webvtt
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.fakes import fake_record
from vidcap.output.record import ErrorPart, Record, Segment
from vidcap.output.text import TextWriter, window_heading
from vidcap.output.tsv import COLUMNS
from vidcap.output.writer import make_writer

#: Everything but halves of surrogate pairs, which no text of a model holds.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def printed(form: str, *records: Record) -> str:
    stream = io.StringIO()
    writer = make_writer(form, stream, inputs=1, questions=1)
    for record in records:
        writer.begin(record.path, record.question)
        writer.end(record)
    writer.close()
    return stream.getvalue()


def timed(*texts: str, every_s: float = 2.5) -> Record:
    segments = [
        Segment(number * every_s, (number + 1) * every_s, text) for number, text in enumerate(texts)
    ]
    return replace(fake_record("a.mp4", text="\n".join(texts)), segments=tuple(segments))


def read_srt(text: str) -> list[tuple[float, float, str]]:
    return [
        (cue.start.total_seconds(), cue.end.total_seconds(), cue.content)
        for cue in srt.parse(text, ignore_errors=False)
    ]


def read_vtt(text: str) -> list[tuple[float, float, str]]:
    found = webvtt.from_string(text)
    return [(cue.start_in_seconds, cue.end_in_seconds, cue.raw_text) for cue in found]


def test_windows_become_cues():
    record = timed("A red circle moves.", "It stops.", every_s=1834.5)
    expected = [(0.0, 1834.5, "A red circle moves."), (1834.5, 3669.0, "It stops.")]
    assert read_srt(printed("srt", record)) == expected
    assert [(start, end, text) for start, end, text in read_vtt(printed("vtt", record))] == [
        (int(start), int(end), text) for start, end, text in expected
    ]
    assert "00:30:34.500 --> 01:01:09.000" in printed("vtt", record)
    assert printed("srt", record) == (
        "1\n00:00:00,000 --> 00:30:34,500\nA red circle moves.\n\n"
        "2\n00:30:34,500 --> 01:01:09,000\nIt stops.\n\n"
    )


def test_a_caption_without_windows_is_one_cue_over_the_whole_video():
    assert read_srt(printed("srt", fake_record("a.mp4", text="All of it."))) == [
        (0.0, 6.0, "All of it.")
    ]


@given(st.lists(TEXT, min_size=1, max_size=4))
def test_no_text_breaks_the_form(texts):
    record = timed(*texts)
    cues = read_srt(printed("srt", record))
    said = [number for number, text in enumerate(texts) if text.strip() and _words(text)]
    assert [start for start, _, _ in cues] == [number * 2.5 for number in said]
    found = read_vtt(printed("vtt", record))
    assert len(found) == len(said)
    for (_, _, text), number in zip(found, said, strict=True):
        assert _words(_unescaped(text)) == _words(texts[number])


def _words(text: str) -> list[str]:
    """What is left of a text when its spaces do not count."""
    return text.split()


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def test_arrows_empty_lines_and_tags_are_words():
    record = timed("left --> right\n\n\nthen <b>up</b> & away")
    assert read_srt(printed("srt", record))[0][2] == "left -> right\nthen <b>up</b> & away"
    assert read_vtt(printed("vtt", record))[0][2] == (
        "left --&gt; right\nthen &lt;b&gt;up&lt;/b&gt; &amp; away"
    )


def test_windows_without_words_and_without_length():
    record = replace(timed("One.", "", "Three."), segments=(Segment(0, 1, ""), Segment(2, 2, "x")))
    assert read_srt(printed("srt", record)) == [(2.0, 2.001, "x")]
    assert printed("vtt", timed("")) == "WEBVTT\n\n"


def test_a_failed_video_has_no_cues():
    failed = Record("a", "describe", status="error", error=ErrorPart("E", "m"))
    assert (printed("srt", failed), printed("vtt", failed)) == ("", "")


@given(TEXT, st.text(st.characters(exclude_categories=["Cs"]), max_size=9))
def test_a_table_reads_back_equal(text, path):
    record = replace(timed(text, "b"), path=path, question="Why?\tNow")
    table = printed("tsv", record)
    rows = list(csv.reader(io.StringIO(table, newline="\n"), dialect=_Dialect))
    assert rows[0] == list(COLUMNS)
    first, second = (dict(zip(COLUMNS, row, strict=True)) for row in rows[1:])
    assert _plain(first["text"]) == text
    assert _plain(first["path"]) == path
    assert _plain(first["question"]) == "Why?\tNow"
    assert (first["start_s"], first["end_s"], first["part"]) == ("0.000", "2.500", "1/2")
    assert (second["part"], second["status"], second["settings_hash"]) == ("2/2", "ok", "f00d")


class _Dialect(csv.excel_tab):
    quoting = csv.QUOTE_NONE


def _plain(value: str) -> str:
    names = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
    return re.sub(r"\\(.)", lambda match: names[match[1]], value)


def test_a_table_says_what_failed_and_what_was_cut_off():
    failed = Record("a", "describe", status="error", error=ErrorPart("E", "no\tvideo"))
    table = printed("tsv", failed, replace(timed("x"), finish_reason="interrupted"))
    rows = [line.split("\t") for line in table.splitlines()[1:]]
    assert [row[6:8] for row in rows] == [["error", "no\\tvideo"], ["interrupted", ""]]
    assert rows[0][5] == "1/1"


def test_windows_are_headed_by_their_times_in_text():
    record = timed("One.", "Two\nlines.")
    assert printed("text", record) == (
        "[00:00:00.000 - 00:00:02.500] One.\n[00:00:02.500 - 00:00:05.000] Two\nlines.\n"
    )
    assert window_heading(30, 3661) == "[00:00:30 - 01:01:01]"
    assert window_heading(0, 59.9999) == "[00:00:00 - 00:01:00]"


@pytest.mark.parametrize("form", ["srt", "vtt", "tsv"])
def test_controls_are_neutralised_on_a_terminal_only(form):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, expected in ((Terminal(), "\\x1b[2J"), (io.StringIO(), "\x1b[2J")):
        writer = make_writer(form, stream, inputs=1, questions=1)
        writer.end(timed("\x1b[2J"))
        assert expected in stream.getvalue()


def test_streamed_and_whole_windows_are_the_same():
    record = timed("One.", "Two.")
    stream = io.StringIO()
    writer = TextWriter(stream, show_paths=True)
    writer.begin("a.mp4", None)
    for segment in record.segments:
        writer.piece(f"{window_heading(segment.start_s, segment.end_s)} ")
        writer.piece(segment.text)
        writer.piece("\n")
    writer.end(record)
    writer.close()
    assert stream.getvalue() == "==> a.mp4 <==\n" + printed("text", record)
