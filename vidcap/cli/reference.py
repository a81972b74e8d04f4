"""Writes the man pages and completions that stand beside the package, for developers.

``python -m vidcap.cli.reference`` in a checkout writes ``man/`` and ``completions/`` again; a test
fails when they are not what it would write.
"""

from __future__ import annotations

import sys
from pathlib import Path

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from vidcap.cli.app import COMPLETE_VARIABLE, app
from vidcap.cli.manpage import pages

#: The file of each shell's completion; the names that the shells look for are given when the
#: package is built.
COMPLETIONS = {
    "bash": "vidcap.bash",
    "zsh": "vidcap.zsh",
    "fish": "vidcap.fish",
    "powershell": "vidcap.ps1",
}

#: As a file on zsh's ``fpath``, the script is the body of ``_vidcap`` and has to complete at once;
#: sourced, it only registers the function.
_ZSH_END = """\
if [[ $funcstack[1] == _vidcap ]]; then
  _vidcap_completion "$@"
else
  compdef _vidcap_completion vidcap
fi"""


def documents() -> dict[str, str]:
    """The text of every generated file, by its path from the root of the repository."""
    found = {f"man/{name}": text for name, text in pages(typer.main.get_command(app)).items()}
    for shell, name in COMPLETIONS.items():
        found[f"completions/{name}"] = _completion(shell)
    return found


def write(root: Path) -> list[Path]:
    """Writes all of them below `root`, removes what is generated no more, returns what changed."""
    wanted = documents()
    changed = []
    for folder in ("man", "completions"):
        (root / folder).mkdir(exist_ok=True)
        for path in (root / folder).iterdir():
            if f"{folder}/{path.name}" not in wanted:
                path.unlink()
                changed.append(path)
    for name, text in wanted.items():
        path = root / name
        if not path.is_file() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            changed.append(path)
    return changed


def _completion(shell: str) -> str:
    script = get_completion_script(prog_name="vidcap", complete_var=COMPLETE_VARIABLE, shell=shell)
    if shell == "zsh":
        script = script.replace("compdef _vidcap_completion vidcap", _ZSH_END)
    return script + "\n"


if __name__ == "__main__":
    for path in write(Path(__file__).parents[2]):
        sys.stdout.write(f"{path}\n")
