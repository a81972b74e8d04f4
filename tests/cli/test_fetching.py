"""When a model is fetched, and when somebody is asked first."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from vidcap.cli import fetching
from vidcap.cli.fetching import settle_pair
from vidcap.errors import ModelError
from vidcap.models import hub, pair
from vidcap.models.machine import Device
from vidcap.settings import ModelSettings

BIG = "Qwen/Qwen2.5-VL-7B-Instruct"
SMALL = "Qwen/Qwen2.5-VL-3B-Instruct"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def fetched(monkeypatch, tmp_path):
    """Names of what was fetched; nothing is cached before, and the GPU holds the smallest pair."""
    names: list[str] = []

    def cached(name, revision=None):
        return tmp_path if name in names else None

    def pull(name, **how):
        names.append(name)
        return tmp_path

    monkeypatch.setattr(hub, "cached_model", cached)
    monkeypatch.setattr(pair, "cached_model", cached)
    monkeypatch.setattr(hub, "pull_model", pull)
    monkeypatch.setattr(hub, "download_size", lambda name, revision: 7_000_000)
    monkeypatch.setattr(hub, "is_offline", lambda: False)
    gpu = Device("cuda:0", "GPU", 40_000_000_000, bf16=True)
    monkeypatch.setattr(pair, "find_devices", lambda name: (gpu,))
    return names


def on_terminal(monkeypatch, answer):
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stderr", Terminal())
    import sys

    return sys.stderr


def test_on_a_terminal_the_user_is_asked_with_name_and_size(monkeypatch, fetched):
    screen = on_terminal(monkeypatch, "y\n")
    settled = settle_pair(ModelSettings(), needs_draft=True)
    assert settled.pair == "qwen2.5-vl-7b"
    assert fetched == [BIG, SMALL]
    assert screen.getvalue().startswith(
        "No model is cached and none was named. Fetch qwen2.5-vl-7b (24 GB) now? [y/N] "
    )
    assert f"vidcap: notice: fetching {SMALL} (7.00 MB) to " in screen.getvalue()


@pytest.mark.parametrize("answer", ["\n", "n\n", "", "what?\n"])
def test_anything_but_yes_is_no(monkeypatch, fetched, answer):
    on_terminal(monkeypatch, answer)
    with pytest.raises(ModelError, match="no model is cached"):
        settle_pair(ModelSettings(), needs_draft=True)
    assert fetched == []


@pytest.mark.parametrize("missing", ["stdin", "stderr"])
def test_without_a_terminal_nobody_is_asked(monkeypatch, fetched, missing):
    on_terminal(monkeypatch, "y\n")
    monkeypatch.setattr(f"sys.{missing}", io.StringIO("y\n"))
    with pytest.raises(ModelError, match="no model is cached") as caught:
        settle_pair(ModelSettings(), needs_draft=True)
    assert caught.value.exit_code == 3
    assert "vidcap models pull qwen2.5-vl-7b" in caught.value.hint
    assert fetched == []


@pytest.mark.parametrize("by", ["option", "environment"])
def test_offline_nobody_is_asked_either(monkeypatch, fetched, by):
    screen = on_terminal(monkeypatch, "y\n")
    monkeypatch.setattr(hub, "is_offline", lambda: by == "environment")
    with pytest.raises(ModelError, match="no model is cached"):
        settle_pair(ModelSettings(offline=by == "option"), needs_draft=True)
    assert (fetched, screen.getvalue()) == ([], "")


def test_where_nothing_fits_nobody_is_asked(monkeypatch, fetched):
    screen = on_terminal(monkeypatch, "y\n")
    small = Device("cpu", "", 4_000_000_000, bf16=True)
    monkeypatch.setattr(pair, "find_devices", lambda name: (small,))
    with pytest.raises(ModelError, match="no model is cached"):
        settle_pair(ModelSettings(), needs_draft=True)
    assert screen.getvalue() == ""


def test_what_was_named_is_fetched_and_that_is_said(fetched, capsys):
    settled = settle_pair(ModelSettings(pair=f"x/big+{SMALL}"), needs_draft=True)
    assert settled == ModelSettings(pair=f"x/big+{SMALL}")
    assert fetched == ["x/big", SMALL]
    assert "vidcap: notice: fetching x/big (7.00 MB) to " in capsys.readouterr().err
    settle_pair(ModelSettings(pair=f"x/big+{SMALL}"), needs_draft=True)
    assert capsys.readouterr().err == ""


def test_a_draft_that_is_not_needed_is_not_fetched(fetched):
    settle_pair(ModelSettings(pair="qwen2.5-vl-7b"), needs_draft=False)
    assert fetched == [BIG]


def test_a_cached_pair_is_settled_without_a_word(fetched, capsys):
    fetched += [BIG, SMALL]
    assert settle_pair(ModelSettings(), needs_draft=True).pair == "qwen2.5-vl-7b"
    assert capsys.readouterr() == ("", "")


def test_folders_are_left_alone(fetched, tiny_target: Path, tiny_draft: Path):
    settle_pair(ModelSettings(pair=f"{tiny_target}+{tiny_draft}"), needs_draft=True)
    assert fetched == []


def test_staying_offline_reaches_every_library(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    fetching.stay_offline()
    import os

    assert os.environ["HF_HUB_OFFLINE"] == "1"
