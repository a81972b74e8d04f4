"""Data sets of videos on disk: a folder, or a JSONL file that names videos."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vidcap.errors import InputError, UsageError
from vidcap.output.source import read_source
from vidcap.settings import DEFAULT_DESCRIBE_PROMPT
from vidcap.video.files import find_videos

#: The file that ``vidcap demo --clips`` writes beside its clips.
TRUTH_FILE = "truth.jsonl"
#: Kind of a question whose line in the data set names none.
OPEN_QUESTION = "question"


@dataclass(frozen=True, slots=True)
class Clip:
    """One video with what is asked about it.

    Attributes:
        name: as reports call it.
        path: the file.
        identity: changes where the content of the file does.
        prompt: the words for the model.
        truth: what is true of a rendered scene (see ``vidcap.demo.scenes.truth``), None if unknown.
        answer: the right answer, where the prompt is a question that has one. With `truth` it is a
            question of ``vidcap.demo.questions`` of that kind.
        question_kind: what kind of question it is, in the words of the data set.
    """

    name: str
    path: Path
    identity: str
    prompt: str
    truth: Mapping[str, Any] | None = None
    answer: str | None = None
    question_kind: str | None = None


@dataclass(frozen=True, slots=True)
class DataSet:
    """The clips of a bench run.

    Attributes:
        clips: in order.
        visual_tokens: how many visual tokens a clip was asked to have, None where nobody asked.
        notice: what the user should know, None for nothing.
    """

    clips: tuple[Clip, ...]
    visual_tokens: int | None = None
    notice: str | None = None


def named_place(text: str) -> tuple[str, Path]:
    """Name and place of a data set from ``NAME=PLACE`` or ``PLACE``, which then is its name.

    Raises:
        UsageError: name or place is empty.
    """
    name, equals, place = text.partition("=")
    # A path may hold the sign as well.
    if not equals or Path(text).exists():
        return text, Path(text)
    if not (name.strip() and place.strip()):
        raise UsageError(f"--dataset takes NAME=DIR, not '{text}'")
    return name.strip(), Path(place.strip()).expanduser()


def read_dataset(place: Path, count: int, prompt: str | None) -> DataSet:
    """The first `count` clips of a folder or a JSONL file.

    A folder with ``truth.jsonl`` or with exactly one ``*.jsonl`` is read by that file, another one
    gives every video in it and its folders, sorted, hidden ones left out.

    Args:
        place: folder or file.
        count: most clips.
        prompt: for clips whose line has no prompt of its own; a question is put behind it.

    Raises:
        UsageError: there is nothing at `place`, or a folder has several JSONL files.
        InputError: the file cannot be read or is broken, or the folder holds no video.
    """
    index = _index(place)
    found = list(_videos(place, prompt) if index is None else _lines(index, prompt))
    if not found:
        raise InputError(f"{index or place} holds no video")
    left = len(found) - count
    notice = f"{count} of {len(found)} clips are used (--count)" if left > 0 else None
    return DataSet(tuple(found[:count]), notice=notice)


def _index(place: Path) -> Path | None:
    """The JSONL file that says what the data set holds, None for a folder without one."""
    if place.is_file():
        return place
    if not place.is_dir():
        raise UsageError(
            f"no data set '{place}'", hint="'demo', a folder of videos, or a JSONL file"
        )
    if (place / TRUTH_FILE).is_file():
        return place / TRUTH_FILE
    files = sorted(place.glob("*.jsonl"))
    if len(files) > 1:
        raise UsageError(f"{place} has several JSONL files", hint="name one of them")
    return files[0] if files else None


def _videos(folder: Path, prompt: str | None) -> Iterator[Clip]:
    for name in find_videos(str(folder)):
        path = Path(name)
        yield Clip(
            str(path.relative_to(folder)), path, _identity(path), prompt or DEFAULT_DESCRIBE_PROMPT
        )


def _lines(index: Path, prompt: str | None) -> Iterator[Clip]:
    try:
        text = index.read_text("utf-8")
    except OSError as error:
        raise InputError(f"cannot read {index}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{index} is not UTF-8 text") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield _clip(json.loads(line), index.parent, prompt)
            except ValueError as error:
                raise InputError(f"{index}, line {number}: {_reason(error)}") from error


def _reason(error: ValueError) -> str:
    return "not JSON" if isinstance(error, json.JSONDecodeError) else str(error)


def _clip(line: Any, folder: Path, prompt: str | None) -> Clip:
    """A clip from a line of the index; ValueError where the line does not describe one."""
    if not isinstance(line, dict):
        raise ValueError("not a JSON object")
    file = _text(line, "file") or _text(line, "path")
    if file is None:
        raise ValueError("no 'file'")
    truth = line.get("truth")
    if not isinstance(truth, dict | None):
        raise ValueError("'truth' is not an object")
    question, path = _text(line, "question"), folder / file
    instruction = _text(line, "prompt") or prompt
    words = [instruction, question] if question else [instruction or DEFAULT_DESCRIBE_PROMPT]
    return Clip(
        name=file,
        path=path,
        identity=_identity(path),
        prompt="\n".join(word for word in words if word),
        # A caption states the facts of the scene, an answer only those that were asked for.
        truth=None if question else truth,
        answer=_text(line, "answer") if question else None,
        question_kind=_text(line, "kind") or OPEN_QUESTION if question else None,
    )


def _text(line: dict[str, Any], key: str) -> str | None:
    value = line.get(key)
    if not isinstance(value, str | None):
        raise ValueError(f"'{key}' is not text")
    return value or None


def _identity(path: Path) -> str:
    source = read_source(str(path))
    return source.fingerprint if source else f"unreadable {path}"
