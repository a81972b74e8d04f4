"""The completion for PowerShell: its grammar, and what the program answers to it.

No package registry brings PowerShell itself, so the script is read by a parser of the language, and
what it asks of the program is asked here in its place.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.cli.processes import ROOT, environment
from vidcap.cli.reference import COMPLETIONS

SCRIPT = (ROOT / "completions" / COMPLETIONS["powershell"]).read_text("utf-8")


def test_every_variable_that_the_script_sets_is_cleared_again():
    names = re.findall(r"^\s+\$Env:(\w+) = ", SCRIPT, re.MULTILINE)
    assert sorted(names[:3]) == sorted(names[3:]) == sorted(set(names))
    assert "_VIDCAP_COMPLETE" in names


@pytest.mark.system
def test_the_script_is_powershell():
    import tree_sitter_powershell
    from tree_sitter import Language, Parser

    parser = Parser(Language(tree_sitter_powershell.language()))
    assert parser.parse(b"foreach ($x in ) {").root_node.has_error
    tree = parser.parse(SCRIPT.encode())
    assert not tree.root_node.has_error
    last = tree.root_node.children[0].children[-1].text.decode()
    assert re.fullmatch(
        r"Register-ArgumentCompleter -Native -CommandName vidcap -ScriptBlock \$scriptblock", last
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vidcap descr", {"describe"}),
        ("vidcap describe --max-f", {"--max-frames"}),
        ("vidcap describe --dtype bfl", {"bfloat16"}),
        ("vidcap models show specv", {"specvlm"}),
    ],
)
def test_the_program_answers_what_the_script_asks(line, expected):
    set_here = re.findall(r"^    \$Env:(\w+) = (?!\"\")(.+)$", SCRIPT, re.MULTILINE)
    values = {
        '"complete_powershell"': "complete_powershell",
        "$commandAst.ToString()": line,
        "$wordToComplete": line.split()[-1],
    }
    assert len(set_here) == 3
    done = subprocess.run(
        [sys.executable, "-m", "vidcap"],
        cwd=ROOT,
        env=environment() | {name: values[given] for name, given in set_here},
        capture_output=True,
        text=True,
        timeout=60,
    )
    rows = [row.split(":::") for row in done.stdout.splitlines()]
    # A CompletionResult refuses an empty tooltip.
    assert all(len(row) == 2 and row[1] for row in rows), done.stdout
    assert {row[0] for row in rows} == expected
    assert done.stderr == ""
