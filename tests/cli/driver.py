"""``vidcap`` with the fake captioner, for tests that need a real process.

What it says and how slow it is comes from the environment: FAKE_WORDS (a JSON list), FAKE_DELAY,
FAKE_LOAD (seconds), FAKE_DEAF.
"""

from __future__ import annotations

import json
import os
from typing import Any

from tests.cli.fakes import FakeCaptioner
from vidcap.cli import main, runtime


def make_captioner(*settings: Any) -> FakeCaptioner:
    """The fake, as the environment wants it."""
    words = os.environ.get("FAKE_WORDS")
    return FakeCaptioner(
        *settings,
        words=json.loads(words) if words else None,
        delay_s=float(os.environ.get("FAKE_DELAY", "0")),
        load_s=float(os.environ.get("FAKE_LOAD", "0")),
        deaf="FAKE_DEAF" in os.environ,
    )


if __name__ == "__main__":
    runtime.make_captioner = make_captioner  # type: ignore[assignment]
    main()
