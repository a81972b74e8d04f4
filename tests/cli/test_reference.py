"""Man pages and completions: up to date, complete, and usable in every shell."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from vidcap.cli import manpage
from vidcap.cli.app import app
from vidcap.cli.manual import EXAMPLES
from vidcap.cli.reference import COMPLETIONS, documents, write

ROOT = Path(__file__).parents[2]
COMMAND = typer.main.get_command(app)


def test_man_pages_and_completions_are_up_to_date():
    stored = {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for folder in ("man", "completions")
        for path in (ROOT / folder).iterdir()
    }
    wanted = documents()
    assert stored.keys() == wanted.keys(), "run python -m vidcap.cli.reference"
    for name, text in wanted.items():
        assert stored[name] == text, f"{name} is out of date: run python -m vidcap.cli.reference"


def test_writing_changes_what_differs_and_removes_what_is_left_over(tmp_path):
    assert len(write(tmp_path)) == len(documents())
    (tmp_path / "man" / "vidcap.1").write_text("old")
    (tmp_path / "man" / "vidcap-gone.1").write_text("old")
    changed = {path.name for path in write(tmp_path)}
    assert changed == {"vidcap.1", "vidcap-gone.1"}
    assert write(tmp_path) == []


def test_the_text_does_not_depend_on_the_terminal_or_the_settings(tmp_path):
    code = (
        "from pathlib import Path; from vidcap.cli.reference import write; "
        f"print(len(write(Path({str(tmp_path)!r}))))"
    )
    write(tmp_path)
    environment = os.environ | {
        "COLUMNS": "20",
        "LC_ALL": "C",
        "VIDCAP_FPS": "9",
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


def _leaves():
    """Page and parser of every command and subcommand."""
    for name, command in COMMAND.commands.items():
        for item in (command, *getattr(command, "commands", {}).values()):
            yield f"man/vidcap-{name}.1", item


def test_every_option_is_in_the_page_of_its_command_with_help_and_variable():
    texts = documents()
    for page, command in _leaves():
        text = " ".join(texts[page].replace("\\-", "-").replace("\\(aq", "'").split())
        for item in command.params:
            if item.param_type_name == "option":
                assert item.opts[-1] in text
                assert " ".join((item.help or "").split()).replace("`", "\\(ga") in text
                assert item.envvar is None or f"Variable: {item.envvar}." in text


def test_there_is_a_page_for_every_command_and_the_first_names_them_all():
    texts = documents()
    assert {name for name in texts if name.startswith("man/")} == {
        "man/vidcap.1",
        *(f"man/vidcap-{name}.1" for name in COMMAND.commands),
    }
    for name in COMMAND.commands:
        assert f"\\fBvidcap\\-{name.replace('-', chr(92) + '-')}\\fR(1)" in texts["man/vidcap.1"]


@pytest.mark.parametrize("line", [line for rows in EXAMPLES.values() for _, line in rows], ids=str)
def test_the_examples_are_command_lines_that_exist(line):
    (part,) = [part for part in line.split(" | ") if part.startswith("vidcap ")]
    _, name, *words = shlex.split(part)
    command = COMMAND.commands[name]
    context = COMMAND.make_context("vidcap", [name], resilient_parsing=True)
    if hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context(name, words, parent=context)


def test_a_page_prints_every_character_as_it_is():
    assert manpage._text(".x it's -a `b` c\\d") == ["\\&.x it\\(aqs \\-a \\(gab\\(ga c\\ed"]
    lines = manpage._text("word " * 40 + ".x")
    assert len(lines) == 3
    assert all(len(line) <= 80 for line in lines)


system = pytest.mark.system


@pytest.fixture(scope="module")
def shell_path(tmp_path_factory):
    """A PATH on which ``vidcap`` is the program under test."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "vidcap"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m vidcap "$@"\n', "utf-8"
    )
    script.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def _shell(path, *words, cwd):
    done = subprocess.run(
        words,
        cwd=cwd,
        env=os.environ | {"PATH": path, "HOME": str(cwd)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@system
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["descr"], {"describe"}),
        (["describe", "--max-f"], {"--max-frames"}),
        (["describe", "--dtype", "bfl"], {"bfloat16"}),
        (["models", "pu"], {"pull"}),
        (["ask", "--pair", "qwen2.5-vl-32b-"], {"qwen2.5-vl-32b-3b"}),
        (["plan", "--method", "specv"], {"specvlm"}),
        (["bench", "--set", "uv"], {"uv-base=", "uv-layer=", "uv-text="}),
        (["models", "show", "specv"], {"specvlm"}),
        (["models", "path", "qwen2.5-vl-32b-"], {"qwen2.5-vl-32b-3b"}),
    ],
)
def test_bash_and_fish_complete(shell_path, tmp_path, words, expected):
    line = " ".join(["vidcap", *words])
    script = ROOT / "completions" / COMPLETIONS["bash"]
    out = _shell(
        shell_path,
        *("bash", "--norc", "-c"),
        f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; "
        '_vidcap_completion vidcap; printf "%s\\n" "${COMPREPLY[@]}"; complete -p vidcap',
        cwd=tmp_path,
    )
    *found, registered = out.splitlines()
    assert {word for word in found if word} == expected
    assert registered == "complete -o default -F _vidcap_completion vidcap"
    script = ROOT / "completions" / COMPLETIONS["fish"]
    out = _shell(
        shell_path,
        *("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"),
        cwd=tmp_path,
    )
    assert {row.split("\t")[0] for row in out.splitlines()} == expected


@system
def test_fish_completes_files_where_they_belong(shell_path, tmp_path):
    (tmp_path / "holiday.mkv").write_bytes(b"")
    script = ROOT / "completions" / COMPLETIONS["fish"]
    out = _shell(
        shell_path,
        *("fish", "--no-config", "-c", f"source {script}; complete -C 'vidcap describe holi'"),
        cwd=tmp_path,
    )
    assert out == "holiday.mkv\n"


@system
@pytest.mark.parametrize("how", ["installed", "sourced"])
def test_zsh_completes_commands_options_and_files(shell_path, tmp_path, how):
    script = ROOT / "completions" / COMPLETIONS["zsh"]
    functions = tmp_path / "site-functions"
    functions.mkdir()
    if how == "installed":
        shutil.copy(script, functions / "_vidcap")
    (tmp_path / "holiday.mkv").write_bytes(b"")
    setup = (
        f"cd {tmp_path}; PS1='> '; fpath=({functions} $fpath); autoload -Uz compinit; "
        f"compinit -u -D; {'' if how == 'installed' else f'source {script}; '}print rea''dy"
    )
    with Terminal("zsh", "-f", "-i", path=shell_path, home=tmp_path) as terminal:
        terminal.type(setup + "\n")
        terminal.wait_for("ready")
        for keys, expected in (
            ("vidcap descr\t", "vidcap describe "),
            ("--max-f\t", "--max-frames "),
            ("2 holi\t", "holiday.mkv"),
        ):
            terminal.type(keys)
            terminal.wait_for(expected)


class Terminal:
    """A program on a terminal of its own: what is typed goes in, what is shown comes out."""

    def __init__(self, *words, path, home):
        self._words, self._path, self._home = words, path, home
        self._shown = ""

    def __enter__(self):
        master, slave = pty.openpty()
        self._process = subprocess.Popen(
            self._words,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env=os.environ | {"PATH": self._path, "HOME": str(self._home), "TERM": "dumb"},
        )
        os.close(slave)
        self._master = master
        return self

    def __exit__(self, *ending):
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def type(self, keys):
        self._shown = ""
        os.write(self._master, keys.encode())

    def wait_for(self, expected, seconds=60.0):
        deadline = time.monotonic() + seconds
        while expected not in self._shown:
            ready, _, _ = select.select([self._master], [], [], deadline - time.monotonic())
            assert ready, f"{expected!r} did not come, only {self._shown!r}"
            piece = os.read(self._master, 4096).decode("utf-8", "replace")
            self._shown = re.sub(".\x08", "", self._shown + piece)


@system
@pytest.mark.parametrize("page", sorted(name for name in documents() if name.startswith("man/")))
def test_man_pages_are_free_of_faults(page):
    lint = subprocess.run(
        ["mandoc", "-Tlint", ROOT / page], capture_output=True, text=True, timeout=60
    )
    # A page has no date of its own, and a name with its summary has to stand on one line.
    faults = [
        line
        for line in lint.stdout.splitlines()
        if "missing date" not in line and ":6:" not in line
    ]
    assert faults == []
    shown = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", ROOT / page],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANPAGER": "cat"},
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "EXIT STATUS" in shown.stdout
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80
