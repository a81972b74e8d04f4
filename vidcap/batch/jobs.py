"""The videos that the user named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from vidcap.errors import InputError
from vidcap.video.files import find_videos

#: How a video on standard input is named.
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Job:
    """One video.

    Attributes:
        path: as messages and records call it.
        file: what is opened.
        name: where its answers belong below a folder of results, without their own suffix.
    """

    path: str
    file: str
    name: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A folder that gives no video, or not all of them."""

    path: str
    error: InputError


Entry = Job | Problem


def find_jobs(path: str) -> Iterator[Entry]:
    """The video at a path, or the videos in the folder there.

    What is neither is a job too, so that it ends as a record that says why.
    """
    if "\0" in path:
        hint = "lists have one path a line: find -print, not -print0"
        yield Problem(path, InputError("no such file", hint=hint))
        return
    if not os.path.isdir(path):
        yield Job(path, path, os.path.basename(path) or "video")
        return
    found = False
    try:
        for file in find_videos(path):
            found = True
            yield Job(file, file, os.path.relpath(file, path))
    except InputError as error:
        yield Problem(path, error)
        return
    if not found:
        yield Problem(path, InputError("the folder holds no video"))
