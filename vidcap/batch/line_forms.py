"""Records in a file as JSON lines and as tab-separated values, and how they are read back."""

from __future__ import annotations

import io
import json
from typing import Any

from vidcap.batch.out_file import Kept, LineForm
from vidcap.output import tsv
from vidcap.output.jsonout import to_json
from vidcap.output.record import Record

#: How every JSON line of a record begins.
_BEGIN = b'{"schema_version": '


class JsonLines:
    """One record a line."""

    def head(self) -> bytes:
        """Nothing."""
        return b""

    def lines(self, record: Record) -> bytes:
        """The record on a line."""
        return to_json(record.to_dict()).encode() + b"\n"

    def path(self, path: str) -> str:
        """The path itself; bytes that are not UTF-8 are kept as JSON keeps them."""
        return path

    def read(self, content: bytes) -> tuple[list[Kept], int]:
        """The records; one that is cut short at the end is left out."""
        kept: list[Kept] = []
        size = 0
        for number, line in enumerate(io.BytesIO(content), 1):
            if not line.endswith(b"\n") and line[: len(_BEGIN)] == _BEGIN[: len(line)]:
                break
            try:
                kept.append(_kept(json.loads(line), len(line)))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"line {number}: no record of vidcap") from error
            size += len(line)
        return kept, size


def _kept(record: dict[str, Any], length: int) -> Kept:
    finished = record["status"] == "ok" and record["finish_reason"] != "interrupted"
    fingerprint = (record["source"] or {}).get("fingerprint", "")
    return Kept(length, record["path"], fingerprint, record["settings_hash"] or "", finished)


class TabSeparated:
    """A line of column names, then one line per window."""

    def head(self) -> bytes:
        """The column names."""
        return tsv.header().encode() + b"\n"

    def lines(self, record: Record) -> bytes:
        """The rows of a record."""
        return "".join(row + "\n" for row in tsv.rows(record)).encode()

    def path(self, path: str) -> str:
        """The path as it stands between tabs."""
        return tsv.field(path)

    def read(self, content: bytes) -> tuple[list[Kept], int]:
        """The records; one that lacks rows at the end is left out."""
        head = self.head()
        if not content.startswith(head):
            if head.startswith(content):
                return [], 0
            raise ValueError("line 1: not the columns that vidcap writes")
        kept: list[Kept] = []
        size = length = 0
        for number, line in enumerate(io.BytesIO(content[len(head) :]), 2):
            values = line.decode("utf-8", "replace").rstrip("\n").split("\t")
            if not line.endswith(b"\n"):
                break
            if len(values) != len(tsv.COLUMNS):
                raise ValueError(f"line {number}: not the columns that vidcap writes")
            length += len(line)
            row = dict(zip(tsv.COLUMNS, values, strict=True))
            part, _, parts = row["part"].partition("/")
            if part == parts:
                finished = row["status"] == "ok"
                settings = row["settings_hash"]
                kept.append(Kept(length, row["path"], row["fingerprint"], settings, finished))
                size, length = size + length, 0
        return kept, len(head) + size


def line_form(name: str) -> LineForm:
    """The form for a format, ``jsonl`` or ``tsv``."""
    return TabSeparated() if name == "tsv" else JsonLines()
