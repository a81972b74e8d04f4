from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.cli.fakes import FakeCaptioner
from vidcap.cli import runtime
from vidcap.cli.app import app


class Cli:
    """Runs the app in this process on a fake captioner and keeps what the captioner saw."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self._monkeypatch = monkeypatch
        # A run sets these where they are not set; here they must not outlive the test.
        monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
        monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        self.calls: list[tuple[Any, ...]] = []
        self.made: list[FakeCaptioner] = []
        self.fake()

    def fake(self, make: Callable[..., FakeCaptioner] = FakeCaptioner, **how: Any) -> None:
        """From now on captioners are made like this."""

        def make_captioner(*settings: Any) -> FakeCaptioner:
            self.made.append(make(*settings, calls=self.calls, **how))
            return self.made[-1]

        self._monkeypatch.setattr(runtime, "make_captioner", make_captioner)

    def __call__(
        self, *words: str | Path, env: dict[str, str] | None = None, input: bytes | None = None
    ) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], env=env, input=input)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(monkeypatch)


@pytest.fixture
def clip(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a file with a name; the fake captioner looks at nothing else."""

    def make(name: str) -> Path:
        path = tmp_path / name
        path.write_bytes(b"not really a video")
        return path

    return make
