"""Batches as real processes: killed, interrupted, fed line by line, watched on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import jsonschema
import pytest

from tests.cli.processes import (
    COMMAND,
    ROOT,
    environment,
    events,
    numbered_videos,
    on_terminal,
    read_until,
    run,
    started,
    wait_for,
)
from vidcap.output.record import record_schema

COUNT = 5


@pytest.fixture
def folder(tmp_path):
    return numbered_videos(tmp_path / "videos", COUNT)


def kill_when(process: subprocess.Popen[bytes], log: Path, closed: int, delay_s: float) -> None:
    """SIGKILL, some time after so many videos were closed."""
    deadline = time.monotonic() + 30
    while len(events(log, "close")) < closed and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(delay_s)
    process.kill()
    process.wait()


@pytest.mark.parametrize("form", ["jsonl", "tsv"])
def test_a_file_survives_kill_at_any_moment(folder, tmp_path, form):
    out, log = tmp_path / f"out.{form}", tmp_path / "log"
    env = {"FAKE_DELAY": "0.02", "FAKE_LOG": str(log)}
    words = ["describe", "-q", "--out-file", out, folder]
    before = b""
    for kill, delay_s in enumerate((0.05, 0.0, 0.001, 0.08), 1):
        with started(*words, env=env) as process:
            kill_when(process, log, kill, delay_s)
        now = out.read_bytes()
        assert now.startswith(before)
        before = now[: now.rindex(b"\n") + 1] if b"\n" in now else b""
    done = run(*words, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert out.read_bytes().startswith(before)
    lines = out.read_text("utf-8").splitlines()
    if form == "tsv":
        paths = [line.split("\t")[0] for line in lines[1:]]
    else:
        for line in lines:
            jsonschema.validate(json.loads(line), record_schema())
        paths = [json.loads(line)["path"] for line in lines]
    assert paths == [f"{folder}/{number}.mp4" for number in range(COUNT)]
    # A killed run repeats at most the video that it was at.
    assert COUNT <= len(events(log, "open")) <= COUNT + 4


def test_a_folder_survives_kill_at_any_moment(folder, tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    env = {"FAKE_DELAY": "0.02", "FAKE_LOG": str(log)}
    words = ["describe", "-q", "--format", "json", "-o", out, folder]
    seen: dict[Path, int] = {}
    for kill, delay_s in enumerate((0.05, 0.0, 0.001, 0.08), 1):
        with started(*words, env=env) as process:
            kill_when(process, log, kill, delay_s)
        for path in out.glob("*.json"):
            record = json.loads(path.read_text("utf-8"))
            jsonschema.validate(record, record_schema())
            assert seen.setdefault(path, path.stat().st_mtime_ns) == path.stat().st_mtime_ns
    done = run(*words, env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    names = sorted(path.name for path in out.iterdir())
    assert names == [".vidcap.jsonl", *(f"{number}.mp4.json" for number in range(COUNT))]
    assert all(path.stat().st_mtime_ns == changed for path, changed in seen.items())
    assert COUNT <= len(events(log, "open")) <= COUNT + 4


def test_ctrl_c_keeps_what_is_done_and_the_next_run_goes_on(folder, tmp_path):
    out, log = tmp_path / "out.jsonl", tmp_path / "log"
    env = {"FAKE_DELAY": "0.1", "FAKE_LOG": str(log)}
    words = ["describe", "-q", "--out-file", out, folder]
    with started(*words, env=env) as process:
        wait_for(log, "answer", 3)
        time.sleep(0.25)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, b"")
    found = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [record["finish_reason"] for record in found] == ["stop", "stop", "interrupted"]
    assert found[2]["text"]
    assert run(*words, env=env).returncode == 0
    found = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [record["finish_reason"] for record in found] == ["stop"] * COUNT
    assert sorted(Path(record["path"]).name for record in found) == sorted(os.listdir(folder))
    assert [name for _, name, _ in events(log, "open")].count("0.mp4") == 1


def test_ctrl_c_leaves_no_half_answer_in_a_folder(folder, tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    env = {"FAKE_DELAY": "0.1", "FAKE_LOG": str(log)}
    words = ["describe", "-q", "-o", out, folder]
    with started(*words, env=env) as process:
        wait_for(log, "answer", 2)
        time.sleep(0.25)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 130
    assert sorted(path.name for path in out.iterdir()) == [".vidcap.jsonl", "0.mp4.txt"]


def test_ctrl_c_between_windows_keeps_the_windows_before(folder):
    env = {"FAKE_DELAY": "0.1"}
    words = ["describe", "-q", "--format", "json", "--every", "2", folder / "0.mp4"]
    with started(*words, env=env | {"FAKE_LOG": str(folder / "log")}) as process:
        wait_for(folder / "log", "answer", 2)
        time.sleep(0.25)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    record = json.loads(out)
    jsonschema.validate(record, record_schema())
    assert record["finish_reason"] == "interrupted"
    first, second = record["segments"]
    assert (first["start_s"], first["end_s"]) == (0.0, 2.0)
    assert 0 < len(second["text"]) < len(first["text"])


def test_lines_are_answered_as_they_arrive_by_one_loaded_pair(folder, tmp_path):
    log = tmp_path / "log"
    words = ["describe", "-q", "--format", "jsonl", "--files-from", "-"]
    with started(*words, env={"FAKE_LOG": str(log)}, stdin=subprocess.PIPE) as process:
        for number in range(3):
            process.stdin.write(f"{folder}/{number}.mp4\n".encode())
            process.stdin.flush()
            line = read_until(process, b"\n")
            assert json.loads(line)["path"] == f"{folder}/{number}.mp4"
        process.stdin.close()
        assert process.wait(timeout=10) == 0
    assert [name for _, name, _ in events(log, "open")] == ["0.mp4", "1.mp4", "2.mp4"]


def test_ctrl_c_while_waiting_for_a_line_ends_at_once(folder):
    words = ["describe", "-q", "--format", "jsonl", "--files-from", "-"]
    with started(*words, stdin=subprocess.PIPE) as process:
        process.stdin.write(f"{folder}/1.mp4\n".encode())
        process.stdin.flush()
        read_until(process, b"\n")
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        assert process.wait(timeout=10) == 130
    assert time.monotonic() - begin < 3


def test_a_failure_ends_a_run_whose_list_is_still_open(folder, tmp_path):
    (tmp_path / "oom.mp4").touch()
    with started("describe", "-q", "--files-from", "-", stdin=subprocess.PIPE) as process:
        process.stdin.write(f"{tmp_path}/oom.mp4\n".encode())
        process.stdin.flush()
        assert process.wait(timeout=10) == 3
        assert process.stderr.read() == b"vidcap: error: out of memory at one frame\n"


def test_standard_input_may_be_a_video(folder):
    with open(folder / "3.mp4", "rb") as video:
        done = run("describe", "-q", "--format", "json", "-", stdin=video)
    assert (done.returncode, json.loads(done.stdout)["source"]["size"]) == (0, 3)


def watched(words: list[str], env: dict[str, str]) -> tuple[bytes, str]:
    """Standard output in a pipe, and what a terminal sees of standard error."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *words],
        cwd=ROOT,
        env=environment(**{"TERM": "xterm", "COLUMNS": "100"} | env),
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    os.close(slave)
    seen: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(master, 4096):
                seen.append(piece)
        except OSError:  # the last writer has closed the terminal
            return

    reader = threading.Thread(target=read)
    reader.start()
    out, _ = process.communicate(timeout=60)
    reader.join(10)
    os.close(master)
    assert process.returncode == 0
    return out, b"".join(seen).decode()


def test_a_bar_counts_files_on_a_terminal_and_leaves_stdout_alone(folder, tmp_path):
    (folder / "[bold]x[").mkdir()
    (folder / "[bold]x[" / ("long" * 30 + ".mp4")).touch()
    words = ["describe", "--format", "jsonl", str(folder)]
    out, seen = watched(words, {"FAKE_DELAY": "0.1"})
    assert len([json.loads(line) for line in out.splitlines()]) == COUNT + 1
    for words_ in (f"0/{COUNT + 1}", f"3/{COUNT + 1}", "28 tokens/s", "describing", "loading fake"):
        assert words_ in seen
    assert "[bold]x[" in seen.replace("\r\n", "") or "…" in seen
    quiet_out, quiet = watched([*words, "-q"], {})
    assert (len(quiet_out.splitlines()), quiet) == (COUNT + 1, "")


def test_no_colour_means_none_and_a_dumb_terminal_is_left_alone(folder):
    words = ["describe", "--format", "jsonl", str(folder)]
    _, seen = watched(words, {"NO_COLOR": "1", "FAKE_DELAY": "0.05"})
    assert "describing" in seen
    assert not re.search(r"\x1b\[[\d;]*m", seen.replace("\x1b[0m", "").replace("\x1b[1m", ""))
    _, dumb = watched(words, {"TERM": "dumb"})
    assert dumb == "vidcap: notice: the fake pair sees nothing\r\n"


def test_the_bar_stays_while_answers_go_to_a_file(folder, tmp_path):
    words = ["describe", "--out-file", str(tmp_path / "o.jsonl"), str(folder)]
    out, seen = watched(words, {"FAKE_DELAY": "0.1"})
    assert out == b""
    assert f"4/{COUNT}" in seen


def test_a_bar_and_records_on_one_terminal_keep_apart(folder):
    (folder / "broken.mp4").touch()
    words = ["describe", "--format", "jsonl", str(folder)]
    seen = on_terminal(words, {"FAKE_DELAY": "0.05", "COLUMNS": "100"}, code=1)
    assert f"4/{COUNT + 1}" in seen
    lines = [line for line in seen.replace("\r", "\n").splitlines() if "schema_version" in line]
    found = [json.loads(line[line.index("{") :]) for line in lines]
    assert [record["status"] for record in found] == ["ok"] * COUNT + ["error"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["describe", "-"], 2, "standard input is a terminal"),
        (["describe", "--files-from", "-"], 0, "type paths, one a line; Ctrl-D ends"),
    ],
)
def test_nobody_waits_for_a_terminal_without_knowing(words, code, message):
    master, slave = pty.openpty()
    with started(*words, stdin=slave) as process:
        os.close(slave)
        line = process.stderr.readline().decode()
        os.write(master, b"\x04")
        assert process.wait(timeout=10) == code
    os.close(master)
    assert message in line
