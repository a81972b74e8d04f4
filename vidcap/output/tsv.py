"""Records as tab-separated values: one row per window, or per answer where there are none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from vidcap.output.record import Record
from vidcap.output.subtitles import cues
from vidcap.output.text import neutralise

COLUMNS = (
    *("path", "question", "start_s", "end_s", "text", "part", "status", "error"),
    *("fingerprint", "settings_hash"),
)

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def header() -> str:
    """The first line."""
    return "\t".join(COLUMNS)


def rows(record: Record) -> Iterator[str]:
    """The lines of a record, without line ends.

    Backslash, tab, line feed and carriage return are written as ``\\\\``, ``\\t``, ``\\n`` and
    ``\\r``, as ``@tsv`` of jq does. ``part`` is ``1/3`` in the first of three rows; ``status`` of
    an answer that was cut off is ``interrupted``.
    """
    found: Sequence[tuple[float | None, float | None, str]] = cues(record) or [(None, None, "")]
    source = record.source
    for number, (start_s, end_s, text) in enumerate(found, 1):
        values = (
            record.path,
            record.question,
            _seconds(start_s),
            _seconds(end_s),
            text,
            f"{number}/{len(found)}",
            "interrupted" if record.finish_reason == "interrupted" else record.status,
            record.error.message if record.error else None,
            source.fingerprint if source else None,
            record.settings_hash,
        )
        yield "\t".join(field(value or "") for value in values)


def field(text: str) -> str:
    """A value as it stands between tabs; bytes of a path that are not UTF-8 become ``\\xff``."""
    text = text.translate(_ESCAPES)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


class TsvWriter:
    """Prints a line of column names, then the rows of each record, flushed.

    Args:
        stream: where they go.
        terminal: neutralise control characters.
    """

    def __init__(self, stream: TextIO, *, terminal: bool = False):
        self._stream = stream
        self._terminal = terminal
        self._started = False

    def begin(self, path: str, question: str | None) -> None:
        """Nothing is printed before an answer is complete."""

    def piece(self, text: str) -> None:
        """Words in the making are not printed."""

    def end(self, record: Record) -> None:
        """Prints the record."""
        lines = [*([] if self._started else [header()]), *rows(record)]
        if self._terminal:
            # The tabs between the fields stay.
            lines = [neutralise(line) for line in lines]
        self._stream.write("\n".join(lines) + "\n")
        self._stream.flush()
        self._started = True

    def close(self) -> None:
        """Every line is complete already."""
