"""What is asked about every video."""

from __future__ import annotations

import os
from dataclasses import dataclass

from vidcap.errors import InputError
from vidcap.output.record import Kind


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt for every video; ``question`` is what the user asked with it."""

    kind: Kind
    prompt: str
    question: str | None = None


def check_input(path: str) -> None:
    """Finds the plainest mistakes before any weights are loaded.

    Raises:
        InputError: where there is nothing to open at ``path``.
    """
    if os.path.isdir(path):
        raise InputError("is a folder, not a video")
    if not os.path.exists(path):
        raise InputError("no such file")
