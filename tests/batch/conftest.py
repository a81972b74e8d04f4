from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def videos(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "in"
    folder.mkdir()
    paths = [folder / f"{number}.mp4" for number in range(3)]
    for path in paths:
        path.touch()
    return paths
