"""Inputs of a command line, and what is kept of them."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from vidcap.batch.sources import open_feed


@pytest.mark.parametrize(("name", "kept"), [("clip.mp4", 0), ("-", 1)])
def test_only_standard_input_is_kept_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kept: int
) -> None:
    """A run that is killed leaves its temporary files behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"video")))
    with open_feed([name], None):
        assert len(list(tmp_path.iterdir())) == kept
    assert list(tmp_path.iterdir()) == []
