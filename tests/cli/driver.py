"""``vidcap`` with the fake captioner, for tests that need a real process.

What it says and how slow it is comes from the environment: FAKE_WORDS (a JSON list), FAKE_DELAY,
FAKE_LOAD (seconds), FAKE_DEAF. FAKE_LOG names a file that every opened video is noted in, with the
process that opened it.
"""

from __future__ import annotations

import json
import os
from typing import Any

from tests.cli.fakes import FakeCaptioner
from vidcap.cli import main, runtime


class Log(list[tuple[Any, ...]]):
    """Calls of the captioner, kept in a file so that they outlive the process."""

    def __init__(self, path: str):
        super().__init__()
        self._path = path

    def append(self, call: tuple[Any, ...]) -> None:
        """Notes a call."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps([*call, os.getpid()]) + "\n")


def make_captioner(*settings: Any) -> FakeCaptioner:
    """The fake, as the environment wants it."""
    words, log = os.environ.get("FAKE_WORDS"), os.environ.get("FAKE_LOG")
    return FakeCaptioner(
        *settings,
        words=json.loads(words) if words else None,
        delay_s=float(os.environ.get("FAKE_DELAY", "0")),
        load_s=float(os.environ.get("FAKE_LOAD", "0")),
        deaf="FAKE_DEAF" in os.environ,
        calls=Log(log) if log else None,
    )


if __name__ == "__main__":
    runtime.make_captioner = make_captioner  # type: ignore[assignment]
    main()
