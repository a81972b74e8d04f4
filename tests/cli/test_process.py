"""Whole processes: what only a real stdout, stderr and a real SIGINT can show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import jsonschema
import pytest

from tests.cli.processes import (
    COMMAND,
    ROOT,
    environment,
    on_terminal,
    ones,
    read_until,
    run,
    started,
)
from vidcap.output.record import record_schema


def test_a_reader_that_leaves_ends_the_run_quietly_with_141(clip):
    words = json.dumps([f"line {number}\n" for number in range(2000)])
    command = " ".join([*COMMAND, "describe", "-q", str(clip("a.mp4"))])
    script = f"{command} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env=environment(FAKE_WORDS=words),
        capture_output=True,
        timeout=60,
    )
    assert done.stdout == b"line 0\n141\n"
    assert done.stderr == b""


@pytest.mark.parametrize("words", [["--help"], ["describe", "--format", "jsonl"]])
def test_a_pipe_that_was_closed_before_is_quiet_too(clip, words):
    reading, writing = os.pipe()
    os.close(reading)
    path = [] if "--help" in words else ["-q", clip("a.mp4")]
    done = run(*words, *path, capture_output=False, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_is_an_error(clip):
    with open("/dev/full", "wb") as full:
        done = run(
            *("describe", "-q", clip("a.mp4")),
            capture_output=False,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 3
    assert done.stderr == b"vidcap: error: cannot write the output: No space left on device\n"


def test_ctrl_c_between_tokens_keeps_the_text_so_far(clip):
    env = {"FAKE_WORDS": ones(300), "FAKE_DELAY": "0.05"}
    with started("describe", "-q", clip("a.mp4"), env=env) as process:
        seen = read_until(process, b"one one ")
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    text = (seen + rest).decode()
    assert text.endswith("\n")
    assert set(text.split()) == {"one"}
    assert len(text.split()) < 300
    assert errors == b""


def test_ctrl_c_in_json_keeps_the_finished_and_the_partial_record(clip):
    env = {"FAKE_WORDS": ones(40), "FAKE_DELAY": "0.05"}
    paths = [clip("a.mp4"), clip("b.mp4"), clip("c.mp4")]
    with started("describe", "-q", "--format", "json", *paths, env=env) as process:
        seen = read_until(process, b'"error": null')
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    records = json.loads(seen + rest)
    assert [record["finish_reason"] for record in records] == ["stop", "interrupted"]
    assert 0 < len(records[1]["text"]) < len(records[0]["text"])
    for record in records:
        jsonschema.validate(record, record_schema())


def test_ctrl_c_while_loading_ends_promptly_and_prints_nothing(clip):
    env = {"FAKE_LOAD": "30"}
    with started("describe", "-v", clip("a.mp4"), env=env) as process:
        assert process.stderr.readline() == b"vidcap: notice: the fake pair sees nothing\n"
        time.sleep(0.2)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    assert (process.returncode, out, errors) == (130, b"", b"")
    assert time.monotonic() - begin < 5


def test_a_second_ctrl_c_ends_at_once(clip):
    env = {"FAKE_WORDS": ones(30), "FAKE_DELAY": "1.5", "FAKE_DEAF": "1"}
    with started("describe", "-q", clip("a.mp4"), env=env) as process:
        read_until(process, b"one ")
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1.0)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=5)
    assert process.returncode == 130


def test_a_run_that_ignores_ctrl_c_from_the_start_is_left_alone(clip):
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    env = {"FAKE_WORDS": ones(10), "FAKE_DELAY": "0.05"}
    with started("describe", "-q", clip("a.mp4"), env=env, preexec_fn=ignore) as process:
        seen = read_until(process, b"one ")
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert (seen + rest).decode() == "one " * 10 + "\n"


@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8"])
def test_every_character_survives_a_plain_locale(clip, locale):
    env = {"LC_ALL": locale, "FAKE_WORDS": json.dumps(["猫 naïve 🎬"])}
    strict = env | {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    for variables in (env, strict):
        done = run("describe", "-q", clip("a.mp4"), env=variables)
        assert (done.returncode, done.stdout.decode()) == (0, "猫 naïve 🎬\n")


def test_a_narrow_code_page_gets_replacements_in_text_and_escapes_in_json(clip):
    env = {"PYTHONIOENCODING": "latin-1", "FAKE_WORDS": json.dumps(["naïve 猫"])}
    text = run("describe", "-q", clip("a.mp4"), env=env)
    assert (text.returncode, text.stdout) == (0, "naïve ?\n".encode("latin-1"))
    data = run("describe", "-q", "--format", "json", clip("a.mp4"), env=env)
    assert json.loads(data.stdout)["text"] == "naïve 猫"


def test_paths_that_are_not_utf_8_are_printed_safely_and_read_back(tmp_path):
    raw = os.fsencode(tmp_path) + b"/caf\xe9-[bold].mp4"
    with open(raw, "wb") as file:
        file.write(b"x")
    path = os.fsdecode(raw)
    text = run("describe", "-q", path, path + "-gone")
    assert f"==> {tmp_path}/caf\\xe9-[bold].mp4 <==" in text.stdout.decode()
    assert text.stderr.decode() == (
        f"vidcap: error: {tmp_path}/caf\\xe9-[bold].mp4-gone: no such file\n"
    )
    data = json.loads(run("describe", "-q", "--format", "json", path).stdout)
    assert os.fsencode(data["path"]) == raw


def test_control_characters_are_harmless_on_a_terminal_and_exact_in_a_pipe(clip):
    env = {"FAKE_WORDS": json.dumps(["\x1b[31mred\x07"])}
    path = str(clip("a.mp4"))
    assert "\\x1b[31mred\\x07" in on_terminal(["describe", "-q", path], env)
    assert run("describe", "-q", path, env=env).stdout == b"\x1b[31mred\x07\n"


def test_progress_is_shown_on_a_terminal_only(clip):
    path = str(clip("a.mp4"))
    env = {"FAKE_LOAD": "0.5"}
    assert "loading fake" in on_terminal(["describe", path], env)
    assert "loading fake" not in on_terminal(["describe", "-q", path], env)
    done = run("describe", path, env=env)
    assert done.stderr == b"vidcap: notice: the fake pair sees nothing\n"
    assert b"\x1b" not in done.stdout


def test_closed_standard_streams_are_no_reason_to_crash(clip):
    command = " ".join([*COMMAND, "describe", str(clip("a.mp4"))])
    for redirection, code in (("2>&-", 0), (">&-", 141)):
        done = subprocess.run(
            ["bash", "-c", f"{command} {redirection}"],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == code
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["--help"], ["describe", "--help"], ["--version"]])
def test_help_imports_nothing_heavy_and_is_quick(words):
    code = (
        "import sys\n"
        "from vidcap.cli import main\n"
        f"sys.argv = ['vidcap', *{words!r}]\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    heavy = {'torch', 'transformers', 'numpy', 'av', 'huggingface_hub'}\n"
        "    print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    best, loaded = _quickest(lambda: [sys.executable, "-c", code])
    assert loaded == b"[]\n"
    assert best < 1.0


def _quickest(command: Callable[[], list[str]]) -> tuple[float, bytes]:
    """CPU seconds of the quickest of three runs, and what it says on stderr.

    CPU time, because the wall time of a short process says more about its neighbours.
    """
    times = []
    for _ in range(3):
        before = os.times()
        done = subprocess.run(command(), cwd=ROOT, env=environment(), capture_output=True)
        after = os.times()
        assert done.returncode == 0
        spent = after.children_user - before.children_user
        times.append(spent + after.children_system - before.children_system)
    return min(times), done.stderr


def test_the_module_runs_as_the_command_does():
    done = subprocess.run(
        [sys.executable, "-m", "vidcap", "describe", "/nonexistent.mp4", "--fps", "0"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"vidcap: error: --fps must be above 0")
