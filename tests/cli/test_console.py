from __future__ import annotations

import os

import pytest

from vidcap.cli.console import Console, explain
from vidcap.cli.runtime import hush_libraries
from vidcap.errors import InputError, ModelError


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (InputError("no video stream"), "no video stream", 1),
        (MemoryError(), "out of memory", 3),
        (ModuleNotFoundError("No module named 'av'"), "a package is missing or broken: No", 3),
        (ZeroDivisionError("division by zero"), "internal error: ZeroDivisionError: div", 1),
        (KeyError(), "internal error: KeyError", 1),
    ],
)
def test_every_error_can_be_read(error, message, code):
    known = explain(error)
    assert known.message.startswith(message)
    assert known.exit_code == code


def test_an_error_is_one_line_whatever_it_says(capsys):
    Console().error(ModelError("first\n  second\x1b[2J", hint="one\ntwo"), "a\nb.mp4")
    assert capsys.readouterr().err == (
        "vidcap: error: a\\nb.mp4: first second\\x1b[2J\nhint: one two\n"
    )


def test_an_empty_path_can_be_seen(capsys):
    Console().error(InputError("no such file"), "")
    assert capsys.readouterr().err == "vidcap: error: '': no such file\n"


def test_a_warning_is_said_once_for_each_input(capsys):
    console = Console()
    for path in ("a", "a", "b"):
        console.warning("short", path)
    assert capsys.readouterr().err == "vidcap: warning: a: short\nvidcap: warning: b: short\n"


def test_nobody_reading_stderr_costs_nothing(monkeypatch):
    class Broken:
        def write(self, text):
            raise BrokenPipeError

        def isatty(self):
            return False

    monkeypatch.setattr("sys.stderr", Broken())
    assert Console().error(InputError("x")).exit_code == 1


def test_libraries_are_quiet_unless_asked_or_told_otherwise(monkeypatch):
    monkeypatch.delenv("TRANSFORMERS_VERBOSITY", raising=False)
    monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS", raising=False)
    hush_libraries(Console(verbose=True))
    assert "TRANSFORMERS_VERBOSITY" not in os.environ
    hush_libraries(Console())
    assert os.environ["TRANSFORMERS_VERBOSITY"] == "error"
    assert os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] == "1"
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "info")
    hush_libraries(Console())
    assert os.environ["TRANSFORMERS_VERBOSITY"] == "info"
