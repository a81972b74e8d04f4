from __future__ import annotations

import io
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.fakes import fake_record
from vidcap.errors import UsageError
from vidcap.output.jsonout import JsonWriter, to_json
from vidcap.output.record import ErrorPart, Record
from vidcap.output.streams import GuardedOutput, OutputClosed, is_unicode
from vidcap.output.text import TextWriter, neutralise, one_line
from vidcap.output.writer import make_writer

ANY_TEXT = st.text(st.characters(exclude_categories=[]))


@given(ANY_TEXT, st.booleans())
def test_json_reads_back_equal_and_any_stream_can_carry_it(text, ascii_only):
    printed = to_json({"text": text}, ascii_only=ascii_only)
    assert json.loads(printed) == {"text": text}
    assert len(printed.splitlines()) == 1
    assert not any(0x7F <= ord(char) <= 0x9F or ord(char) < 32 for char in printed)
    printed.encode("ascii" if ascii_only else "utf-8")


@given(ANY_TEXT)
def test_neutral_text_keeps_all_but_the_controls(text):
    neutral = neutralise(text)
    assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in neutral)
    printable = "".join(c for c in text if ord(c) >= 160 or 32 <= ord(c) < 127)
    assert neutralise(printable) == printable


def test_an_escape_sequence_is_spelled_out():
    assert neutralise("\x1b[31mred\x1b[0m\r\x9b2J") == "\\x1b[31mred\\x1b[0m\\x0d\\x9b2J"


@given(st.binary())
def test_a_path_of_any_bytes_becomes_one_printable_line(raw):
    line = one_line(os.fsdecode(raw))
    assert len(line.splitlines()) <= 1
    line.encode("utf-8")


def test_undecodable_bytes_are_spelled_out():
    assert one_line(os.fsdecode(b"caf\xe9 \xe7\x8c\xab.mp4")) == "caf\\xe9 猫.mp4"


@given(
    st.lists(st.tuples(st.lists(st.text(min_size=1), max_size=3), st.booleans()), max_size=4),
    st.booleans(),
)
def test_streamed_and_whole_text_are_the_same(answers, terminal):
    outputs = []
    for live in (True, False):
        stream = io.StringIO()
        writer = TextWriter(stream, show_paths=True, live=live, terminal=terminal)
        for number, (pieces, failed) in enumerate(answers):
            writer.begin(f"{number}.mp4", None)
            if failed:
                writer.end(Record("x", "describe", status="error", error=ErrorPart("E", "m")))
                continue
            for piece in pieces:
                writer.piece(piece)
            writer.end(fake_record("x", text="".join(pieces)))
        writer.close()
        outputs.append(stream.getvalue())
    assert outputs[0] == outputs[1]


def test_the_path_is_said_once_for_its_questions():
    stream = io.StringIO()
    writer = TextWriter(stream, show_paths=True, show_questions=True)
    for path, question in [("a", "1?"), ("a", "2?"), ("b", "1?")]:
        writer.begin(path, question)
        writer.piece("yes")
        writer.end(fake_record(path, text="yes"))
    assert stream.getvalue() == (
        "==> a <==\n--> 1? <--\nyes\n\n--> 2? <--\nyes\n\n==> b <==\n--> 1? <--\nyes\n"
    )


def test_an_answer_that_is_cut_off_ends_its_line():
    stream = io.StringIO()
    writer = TextWriter(stream)
    writer.begin("a", None)
    writer.piece("half a")
    writer.close()
    assert stream.getvalue() == "half a\n"


@pytest.mark.parametrize("records", [0, 1, 3])
def test_a_json_list_is_valid_after_any_number_of_records(records):
    stream = io.StringIO()
    writer = JsonWriter(stream, as_list=True)
    for number in range(records):
        writer.end(fake_record(f"{number}.mp4"))
    writer.close()
    paths = [record["path"] for record in json.loads(stream.getvalue())]
    assert paths == [f"{number}.mp4" for number in range(records)]


def test_json_is_ascii_on_streams_that_are_not_unicode():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="latin-1", errors="replace")
    writer = make_writer("json", stream, inputs=1, questions=1)
    writer.end(fake_record("猫.mp4", text="naïve 猫"))
    stream.flush()
    assert json.loads(raw.getvalue())["text"] == "naïve 猫"


def test_an_unknown_format_is_a_usage_error():
    with pytest.raises(UsageError, match="unknown format 'xml'"):
        make_writer("xml", io.StringIO(), inputs=1, questions=1)


@pytest.mark.parametrize("line_buffering", [True, False])
def test_a_reader_that_left_is_told_apart_from_every_other_error(line_buffering):
    reading, writing = os.pipe()
    os.close(reading)
    raw = os.fdopen(writing, "wb")
    stream = GuardedOutput(raw, encoding="utf-8", line_buffering=line_buffering)
    with pytest.raises(OutputClosed):
        _write_and_flush(stream, "x" * 100_000 + "\n")
    # What is left in the buffer has nowhere to go; let it go to nowhere.
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, writing)
    os.close(sink)
    stream.close()


def _write_and_flush(stream: GuardedOutput, text: str) -> None:
    stream.write(text)
    stream.flush()


@pytest.mark.parametrize(
    ("encoding", "unicode"), [("utf-8", True), ("UTF8", True), ("latin-1", False), (None, True)]
)
def test_unicode_encodings_are_known(encoding, unicode):
    assert is_unicode(encoding) is unicode
