"""Which files of a folder are videos."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from vidcap.errors import InputError

#: Files of a folder that count as videos, by extension in any case.
VIDEO_SUFFIXES = frozenset(
    f".{name}"
    for name in (
        *("3g2", "3gp", "asf", "avi", "f4v", "flv", "gif", "m2ts", "m2v", "m4v", "mkv", "mov"),
        *("mp4", "mpeg", "mpg", "mts", "mxf", "ogm", "ogv", "ts", "vob", "webm", "wmv"),
    )
)

#: These are also the extensions of TypeScript.
_AMBIGUOUS = frozenset({".ts", ".mts"})
_SYNC_BYTE = 0x47
_HEAD = 200

#: Folders within folders; deeper trees are loops or mistakes.
MAX_DEPTH = 100


def find_videos(folder: str, _above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
    """The videos in a folder and the folders in it.

    Sorted by name, hidden files and folders left out. Links are followed, except to a folder that
    the link itself lies in.

    Raises:
        InputError: a folder cannot be read or lies too deep, said once the others of its parent are
            done.
    """
    if len(_above) == MAX_DEPTH:
        raise InputError(f"folders lie in each other more than {MAX_DEPTH} deep")
    identity = _identity(folder)
    if identity in _above:
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from error
    unreadable: list[str] = []
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if _is_folder(entry):
            try:
                yield from find_videos(entry.path, _above | {identity})
            except InputError as error:
                unreadable.append(f"{entry.name} {error.message}")
        elif is_video_name(entry.name) and _is_video_file(entry):
            yield entry.path
    if unreadable:
        raise InputError("; ".join(unreadable))


def is_video_name(name: str) -> bool:
    """Whether the extension is one of a video."""
    return Path(name).suffix.lower() in VIDEO_SUFFIXES


def _identity(folder: str) -> tuple[int, int]:
    try:
        status = os.stat(folder)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from error
    return status.st_dev, status.st_ino


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_video_file(entry: os.DirEntry[str]) -> bool:
    """False for what is no file, and for TypeScript; a link to nowhere counts, to be told."""
    try:
        if entry.is_symlink() and not os.path.exists(entry.path):
            return True
        return entry.is_file() and (
            Path(entry.name).suffix.lower() not in _AMBIGUOUS or _is_transport_stream(entry.path)
        )
    except OSError:
        return False


def _is_transport_stream(path: str) -> bool:
    """By the sync bytes of its first two packets, which are 188 bytes, or 192 with a time code."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return True
    return any(
        len(head) > second and head[first] == head[second] == _SYNC_BYTE
        for first, second in ((0, 188), (4, 196))
    )
