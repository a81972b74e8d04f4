"""Facts as plain text: columns, and sizes as people write them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from vidcap.output.jsonout import to_json
from vidcap.output.streams import is_unicode
from vidcap.output.text import one_line

_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def size_words(size: int | None) -> str:
    """A number of bytes in decimal units: ``16.6 GB``."""
    if size is None:
        return "?"
    for unit, factor in _UNITS:
        if size >= factor:
            value = size / factor
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{size} bytes"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with their cells one below the other; the last column is as wide as it is."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, [*widths[:-1], 0], strict=True)
        ).rstrip()
        for row in rows
    ]


def print_facts(form: str, data: Any, lines: Iterable[str]) -> None:
    """Prints facts on standard output.

    Args:
        form: ``text`` or ``json``.
        data: them as JSON types.
        lines: them as text.
    """
    if form == "json":
        text = to_json(data, indent=2, ascii_only=not is_unicode(sys.stdout.encoding))
    else:
        text = "\n".join(one_line(line) for line in lines)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
