"""The code blocks of the README, and the commands in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: What a reader needs beyond this machine, as a comment behind the command says it.
_MARK = re.compile(r"# needs (?:the net|a GPU)\b")


def blocks(language: str) -> list[str]:
    """The blocks in a language, in order."""
    return [text for found, text in _BLOCK.findall(README) if found == language]


def commands() -> Iterator[str]:
    """Every command line of the shell blocks, and those shown with their output."""
    for block in blocks("sh"):
        yield from filter(str.strip, block.splitlines())
    for block in blocks("text"):
        yield from (line[2:] for line in block.splitlines() if line.startswith("$ "))


def is_marked(command: str) -> bool:
    """Whether it says that it needs a GPU or the net."""
    return _MARK.search(command) is not None
