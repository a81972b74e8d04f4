"""Records as JSON (one object or one list) and as JSON lines."""

from __future__ import annotations

import json
import re
from typing import Any, TextIO

from vidcap.output.record import Record
from vidcap.output.streams import is_unicode

# Valid inside a JSON string, but trouble in a stream: DEL and the C1 controls (a terminal obeys
# them), the line separators some readers split at, and halves of surrogate pairs, which stand for
# path bytes that are not UTF-8.
_AWKWARD = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def to_json(data: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """JSON text that any stream can carry and any JSON reader reads back to equal strings."""
    text = json.dumps(data, ensure_ascii=ascii_only, indent=indent, allow_nan=False)
    return _AWKWARD.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class JsonWriter:
    """Prints one object, or a list of them that is valid however early the run ends.

    Args:
        stream: where the records go.
        as_list: a list even where it holds one record.
    """

    def __init__(self, stream: TextIO, *, as_list: bool):
        self._stream = stream
        self._as_list = as_list
        self._count = 0
        self._ascii = not is_unicode(stream.encoding)

    def begin(self, path: str, question: str | None) -> None:
        """Nothing is printed before an answer is complete."""

    def piece(self, text: str) -> None:
        """Words in the making are not printed."""

    def end(self, record: Record) -> None:
        """Prints the record."""
        if self._as_list:
            self._stream.write(",\n" if self._count else "[\n")
        self._stream.write(to_json(record.to_dict(), indent=2, ascii_only=self._ascii))
        if not self._as_list:
            self._stream.write("\n")
        self._stream.flush()
        self._count += 1

    def close(self) -> None:
        """Ends the list, which is empty where no answer came."""
        if self._as_list:
            self._stream.write("\n]\n" if self._count else "[]\n")
            self._stream.flush()


class JsonLinesWriter:
    """Prints one record a line, each flushed."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._ascii = not is_unicode(stream.encoding)

    def begin(self, path: str, question: str | None) -> None:
        """Nothing is printed before an answer is complete."""

    def piece(self, text: str) -> None:
        """Words in the making are not printed."""

    def end(self, record: Record) -> None:
        """Prints the record."""
        self._stream.write(to_json(record.to_dict(), ascii_only=self._ascii) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Every line is complete already."""
