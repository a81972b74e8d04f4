from __future__ import annotations

import pytest

from tests.cli.conftest import Cli


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(monkeypatch)
