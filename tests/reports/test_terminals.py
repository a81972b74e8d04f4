"""What people reported about tools like this one, for terminals and locales."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

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


@pytest.fixture
def clip(tmp_path):
    path = tmp_path / "[id] clip.mp4"
    path.touch()
    return path


def test_nothing_is_wrapped_at_80_columns_in_a_pipe(clip):
    text = "word " * 100
    for columns in ("80", "20"):
        done = run(
            "describe", "-q", clip, env={"FAKE_WORDS": json.dumps([text]), "COLUMNS": columns}
        )
        assert done.stdout.decode() == text + "\n"


@pytest.mark.parametrize(
    "text", ["[id] of [bold]x", "[/x] closes nothing", ":smile: [red", "\\[a]"]
)
def test_brackets_are_words_and_not_markup(clip, text):
    env = {"FAKE_WORDS": json.dumps([text])}
    done = run("describe", "--profile", clip, env=env)
    assert (done.returncode, done.stdout.decode()) == (0, text + "\n")
    assert text in on_terminal(["describe", "-v", "--profile", str(clip)], env)


def test_the_name_of_a_file_is_no_markup_in_messages(tmp_path):
    path = tmp_path / "[" / "x][id] broken.mp4"
    path.parent.mkdir()
    path.touch()
    for words in (["-q"], ["-v", "--debug"]):
        done = run("describe", *words, path)
        assert f"vidcap: error: {path}: no video stream" in done.stderr.decode()


def test_head_ends_a_run_without_a_traceback(clip):
    words = json.dumps([f"{number}\n" for number in range(5000)])
    command = " ".join(COMMAND)
    done = subprocess.run(
        ["bash", "-c", f'{command} describe -q "$1" | head -1; echo ${{PIPESTATUS[0]}}', "-", clip],
        cwd=ROOT,
        env=environment(FAKE_WORDS=words),
        capture_output=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == (b"0\n141\n", b"")


def test_ctrl_c_is_not_ignored(clip):
    with started(
        "describe", "-q", clip, env={"FAKE_WORDS": ones(500), "FAKE_DELAY": "0.02"}
    ) as run_:
        read_until(run_, b"one ")
        begin = time.monotonic()
        run_.send_signal(signal.SIGINT)
        run_.communicate(timeout=20)
    assert run_.returncode == 130
    assert time.monotonic() - begin < 3


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "cp437"},
        {"PYTHONIOENCODING": "cp1252:strict"},
    ],
    ids=["C", "cp437", "cp1252"],
)
@pytest.mark.parametrize("form", ["text", "json", "jsonl", "tsv", "srt", "vtt"])
def test_text_that_is_not_latin_does_not_end_the_run(tmp_path, env, form):
    path = tmp_path / "видео 猫.mp4"
    path.touch()
    env = env | {"FAKE_WORDS": json.dumps(["猫がいる. Кот! 🎬 \u2028"])}
    done = run("describe", "--profile", "-v", "--format", form, path, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    out = tmp_path / "out"
    assert run("describe", "--format", form, "-o", out, path, env=env).returncode == 0
    (written,) = (file for file in out.iterdir() if file.name != ".vidcap.jsonl")
    text = written.read_text("utf-8")
    assert "猫がいる" in (json.loads(text)["text"] if form.startswith("json") else text)


def test_a_bare_command_does_not_hang_on_standard_input(clip):
    for words in ([], ["describe"], ["ask"]):
        with started(*words, stdin=subprocess.PIPE) as process:
            out, errors = process.communicate(timeout=20)
        if words:
            assert (process.returncode, out) == (2, b"")
            assert errors.startswith(b"vidcap: error: missing argument 'INPUT'\nhint: see ")
        else:
            assert (process.returncode, errors) == (0, b"")


@pytest.mark.parametrize("words", [["--help"], ["describe", "--help"], ["bench", "--help"]])
def test_help_is_not_slow(words):
    """What takes long is never imported for it; a limit in seconds would depend on the machine."""
    code = (
        "import sys; from vidcap.cli import main\n"
        f"sys.argv = ['vidcap', *{words!r}]\n"
        "try:\n    main()\n"
        "finally:\n"
        "    slow = {'torch', 'transformers', 'numpy', 'av', 'ray', 'huggingface_hub'}\n"
        "    print(sorted(slow & set(sys.modules)), file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, timeout=60)
    assert done.stdout.decode().strip().startswith("Usage: vidcap")
    assert done.stderr.decode().strip() == "[]"
