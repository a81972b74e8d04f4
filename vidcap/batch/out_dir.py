"""One file of answers per video in a folder that mirrors the tree of the videos.

Files appear whole: they are written beside their place and renamed. What each was made from stands
in a journal in the same folder, one line a file, because subtitles and text have no room for it. A
line is written before the file is renamed, so a file counts as finished where the journal knows it
and nothing is left beside it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vidcap.batch.jobs import STDIN, Job
from vidcap.batch.sinks import Wanted
from vidcap.errors import UsageError
from vidcap.output.jsonout import to_json
from vidcap.output.record import Record
from vidcap.output.streams import OutputError
from vidcap.output.writer import make_writer

JOURNAL = ".vidcap.jsonl"

_SUFFIXES = {"text": "txt"}
#: Bytes of a name that file systems hold, less those that the file beside it has more.
_MOST_BYTES = 255 - len("..part")
#: The longest ending of a name that is taken for the video's suffix, in bytes.
_SUFFIX_BYTES = 16
#: Only these can say why a video failed.
_WITH_ERRORS = frozenset({"json", "jsonl"})


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a file was made from: the video's path and fingerprint, hashes of the settings."""

    path: str
    fingerprint: str
    settings: tuple[str, ...]


class FolderSink:
    """Writes the answers about each video into a file of its own.

    Args:
        folder: made when the first file is written.
        form: name of the format.
        questions: how many requests there are for each video.
        overwrite: whether files that are done are made again.

    Raises:
        UsageError: the folder cannot be used.
    """

    keeps = True

    def __init__(self, folder: Path, form: str, *, questions: int, overwrite: bool = False):
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"--out-dir {folder} is not a folder")
        self._folder = folder
        self._form = form
        self._questions = questions
        self._overwrite = overwrite
        self._journal = _read_journal(folder / JOURNAL)
        self._owners = {name: entry.path for name, entry in self._journal.items()}
        self._wanted: dict[str, Wanted] = {}
        self._records: list[Record] = []

    def missing(self, job: Job, wanted: Wanted) -> Sequence[int]:
        """All requests or none: a file holds the answers to all of them."""
        name = self._name(job)
        known = self._journal.get(name)
        done = (
            known is not None
            and (known.fingerprint, known.settings) == (wanted.source.fingerprint, wanted.settings)
            and (self._folder / name).is_file()
            and not self._beside(name).exists()
        )
        if done and not self._overwrite:
            return ()
        self._wanted[job.file] = wanted
        return range(len(wanted.settings))

    def begin(self, path: str, question: str | None) -> None:
        """Nothing is written before all answers are there."""

    def piece(self, text: str) -> None:
        """Words in the making are not written."""

    def end(self, record: Record) -> None:
        """Keeps the answer until all are there."""
        self._records.append(record)

    def finish(self, job: Job) -> None:
        """Writes the file. A video that failed leaves one only where the format has room for it,
        and one that was cut off by Ctrl-C leaves none.

        Raises:
            OutputError: it cannot be written.
        """
        records, self._records = self._records, []
        failed = any(record.status != "ok" for record in records)
        cut_off = any(record.finish_reason == "interrupted" for record in records)
        if not records or cut_off or (failed and self._form not in _WITH_ERRORS):
            return
        name = self._name(job)
        try:
            beside = self._beside(name)
            beside.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(self._content(records), "utf-8", "surrogateescape", "\n")
            self._note(name, job, None if failed else self._wanted.pop(job.file, None))
            os.replace(beside, self._folder / name)
        except OSError as error:
            raise OutputError(error) from error

    def close(self) -> None:
        """Every file is complete already."""

    def _content(self, records: Sequence[Record]) -> str:
        stream = io.StringIO()
        writer = make_writer(self._form, stream, inputs=1, questions=self._questions, live=False)
        for record in records:
            writer.begin(record.path, record.question)
            writer.end(record)
        writer.close()
        return stream.getvalue()

    def _note(self, name: str, job: Job, wanted: Wanted | None) -> None:
        """Says in the journal what a file is made from; None for one that is to be made again."""
        entry = _Entry(_place(job), "", ())
        if wanted is not None:
            entry = _Entry(entry.path, wanted.source.fingerprint, wanted.settings)
        values = {"name": name, "path": entry.path, "fingerprint": entry.fingerprint}
        line = to_json(values | {"settings": entry.settings}) + "\n"
        with (self._folder / JOURNAL).open("ab") as file:
            # Where the last line was cut short, it stays one that nobody can read.
            file.write((b"\n" if _is_torn(self._folder / JOURNAL) else b"") + line.encode())
        self._journal[name] = entry

    def _name(self, job: Job) -> str:
        """The place of a video's file, which no other video that still exists has."""
        place = _place(job)
        for name in self._names(job):
            owner = self._owners.get(name, place)
            if owner == place or not os.path.exists(owner):
                self._owners[name] = place
                return name
        raise UsageError(f"no name is left in {self._folder} for {job.path}")

    def _names(self, job: Job) -> Iterator[str]:
        """Its own name below the folder, then with more and more of the folders above it."""
        suffix = _SUFFIXES.get(self._form, self._form)
        # Room for the largest number, too.
        room = _MOST_BYTES - len(f".9999.{suffix}")
        stem = "stdin" if job.path == STDIN else _shortened(job.name, room)
        yield f"{stem}.{suffix}"
        above = Path(_place(job)).parts[1:]
        for count in range(2, len(above) + 1):
            yield f"{_shortened(os.path.join(*above[-count:]), room)}.{suffix}"
        for number in range(2, 10_000):
            yield f"{stem}.{number}.{suffix}"

    def _beside(self, name: str) -> Path:
        place = self._folder / name
        return place.with_name(f".{place.name}.part")


def _place(job: Job) -> str:
    """The video by its absolute path."""
    return STDIN if job.path == STDIN else os.path.abspath(job.file)


def _shortened(place: str, most: int) -> str:
    """A place whose name has at most so many bytes; what is cut off is told apart by a hash."""
    folder, name = os.path.split(place)
    raw = os.fsencode(name)
    if len(raw) <= most:
        return place
    suffix = os.path.splitext(raw)[1]
    ending = f"~{hashlib.sha256(raw).hexdigest()[:12]}".encode()
    ending += suffix if len(suffix) <= _SUFFIX_BYTES else b""
    # A character that the cut goes through is left out.
    begin = raw[: most - len(ending)].decode("utf-8", "ignore")
    return os.path.join(folder, begin + os.fsdecode(ending))


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return False
        file.seek(size - 1)
        return file.read(1) != b"\n"


def _read_journal(path: Path) -> dict[str, _Entry]:
    """The latest entry by name; lines that are none are left out."""
    entries: dict[str, _Entry] = {}
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return entries
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    for line in content.split(b"\n"):
        try:
            values = json.loads(line)
            entry = _Entry(values["path"], values["fingerprint"], tuple(values["settings"]))
            entries[values["name"]] = entry
        except (ValueError, KeyError, TypeError):
            continue
    return entries
