"""The trace of a run: its format, its rows, and what a real run writes into it."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from vidcap.errors import VidcapError
from vidcap.trace import Trace


def spans(trace: Trace) -> dict[str, dict]:
    return {event["name"]: event for event in trace.chrome()["traceEvents"] if event["ph"] == "X"}


def test_events_of_threads_lie_in_rows_of_their_own() -> None:
    trace = Trace()

    def work() -> None:
        with trace.span("beside"):
            time.sleep(0.02)

    thread = threading.Thread(target=work, name="draft")
    with trace.span("whole"):
        thread.start()
        with trace.span("part"):
            time.sleep(0.01)
        thread.join()
    found = spans(trace)
    whole, part, beside = found["whole"], found["part"], found["beside"]
    assert whole["tid"] == part["tid"] != beside["tid"]
    assert whole["ts"] <= part["ts"]
    assert part["ts"] + part["dur"] <= whole["ts"] + whole["dur"]
    assert beside["dur"] >= 20_000
    rows = {
        event["tid"]: event["args"]["name"]
        for event in trace.chrome()["traceEvents"]
        if event["ph"] == "M"
    }
    assert rows == {whole["tid"]: "main", beside["tid"]: "draft"}


def test_an_event_that_encloses_others_comes_first() -> None:
    """Viewers nest events of a row in the order of the file where they begin together."""
    trace = Trace()
    now = time.perf_counter()
    trace.add("inner", now, now + 1)
    trace.add("outer", now, now + 2, file="a.mp4")
    names = [event["name"] for event in trace.chrome()["traceEvents"] if event["ph"] == "X"]
    assert names == ["outer", "inner"]
    assert spans(trace)["outer"]["args"] == {"file": "a.mp4"}


def test_what_fails_is_an_event_too() -> None:
    trace = Trace()
    with pytest.raises(RuntimeError), trace.span("broken"):
        raise RuntimeError
    assert "broken" in spans(trace)


def test_a_trace_is_json_that_viewers_read(tmp_path: Path) -> None:
    trace = Trace()
    with trace.span("one"):
        pass
    trace.save(tmp_path / "t.json")
    data = json.loads((tmp_path / "t.json").read_text("utf-8"))
    assert data["displayTimeUnit"] == "ms"
    assert {"name", "ph", "ts", "dur", "pid", "tid", "args"} == set(data["traceEvents"][-1])
    with pytest.raises(VidcapError, match="cannot write the trace") as raised:
        trace.save(tmp_path / "none" / "t.json")
    assert raised.value.exit_code == 3
