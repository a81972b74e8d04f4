"""Finding, loading and matching pairs."""

from __future__ import annotations

import json
import shutil
import tomllib
from importlib import resources
from pathlib import Path

import pytest
import torch

from tests.tiny import SHAPE
from vidcap.demo.checkpoint import build_model, save_checkpoint
from vidcap.demo.tokenizer import train_tokenizer
from vidcap.errors import ModelError, UsageError
from vidcap.models import hub, pair
from vidcap.models.loading import load_model, load_pair_folders
from vidcap.models.pair import find_pair, presets
from vidcap.settings import ModelSettings

CPU = {"device": "cpu", "dtype": "float32", "threads": 1}


def test_presets_are_complete() -> None:
    text = resources.files("vidcap.models").joinpath("pairs.toml").read_text(encoding="utf-8")
    assert set(presets()) == set(tomllib.loads(text))
    assert presets()["demo"].builtin
    assert presets()["qwen2.5-vl-7b"].draft == "Qwen/Qwen2.5-VL-3B-Instruct"


def test_folders_make_a_pair(tiny_target: Path, tiny_draft: Path) -> None:
    found = find_pair(ModelSettings(pair=f"{tiny_target}+{tiny_draft}"), needs_draft=True)
    assert (found.target, found.draft) == (tiny_target, tiny_draft)
    assert found.notice is None


def test_a_method_without_draft_needs_none(tiny_target: Path) -> None:
    assert find_pair(ModelSettings(pair=str(tiny_target)), needs_draft=False).draft is None


def test_target_and_draft_override_the_preset(tiny_target: Path, tiny_draft: Path) -> None:
    settings = ModelSettings(pair="demo", target=str(tiny_target), draft=str(tiny_draft))
    found = find_pair(settings, needs_draft=True)
    assert (found.target, found.draft) == (tiny_target, tiny_draft)


def test_target_alone_names_a_pair(tiny_target: Path, tiny_draft: Path) -> None:
    settings = ModelSettings(target=str(tiny_target), draft=str(tiny_draft))
    assert find_pair(settings, needs_draft=True).name == f"{tiny_target}+{tiny_draft}"


def test_a_missing_draft_is_a_usage_error(tiny_target: Path) -> None:
    with pytest.raises(UsageError, match="no draft model"):
        find_pair(ModelSettings(pair=str(tiny_target)), needs_draft=True)


@pytest.mark.parametrize("name", ["nosuchpreset", "+x/y", "a/b+"])
def test_names_that_cannot_be_pairs(name: str) -> None:
    with pytest.raises(UsageError):
        find_pair(ModelSettings(pair=name), needs_draft=False)


def test_without_a_cached_preset_nothing_runs_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair, "cached_model", lambda name, revision=None: None)
    with pytest.raises(ModelError, match="no model is cached") as caught:
        find_pair(ModelSettings(), needs_draft=True)
    assert caught.value.exit_code == 3
    assert "--pair demo" in (caught.value.hint or "")


def test_the_first_cached_preset_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tiny_target: Path
) -> None:
    cached = {"Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-VL-3B-Instruct"}
    monkeypatch.setattr(
        pair, "cached_model", lambda name, revision=None: tiny_target if name in cached else None
    )
    monkeypatch.setattr(pair, "find_model", lambda name, **kwargs: tiny_target)
    assert find_pair(ModelSettings(), needs_draft=True).name == "qwen2.5-vl-7b"


@pytest.mark.parametrize("missing", ["config.json", "*.safetensors"])
def test_incomplete_folders_say_what_is_missing(
    tiny_target: Path, tmp_path: Path, missing: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_target, folder)
    for path in folder.glob(missing):
        path.unlink()
    with pytest.raises(ModelError, match=missing.strip("*.").replace(".", r"\.")):
        hub.find_model(str(folder))


def test_offline_never_connects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refuse(*args: object) -> None:
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="offline"):
        hub.find_model("nobody/no-such-model-here", offline=True)


def test_the_hub_layout_of_a_cache_is_found(
    tiny_target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    revision = "0" * 40
    repository = tmp_path / "models--someone--model"
    shutil.copytree(tiny_target, repository / "snapshots" / revision)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(revision)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    found = hub.find_model("someone/model", offline=True)
    assert found == repository / "snapshots" / revision
    assert hub.cached_model("someone/model") == found
    assert hub.cached_model("someone/other") is None


def test_a_pair_loads_and_says_what_it_runs_on(tiny_target: Path, tiny_draft: Path) -> None:
    settings = ModelSettings(pair=f"{tiny_target}+{tiny_draft}", **CPU)
    loaded = load_pair_folders(find_pair(settings, needs_draft=True), settings)
    assert (loaded.device, loaded.dtype) == ("cpu", "float32")
    assert loaded.draft is not None


def test_a_draft_with_other_tokens_is_refused(tiny_target: Path, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["completely different words in here"] * 3, size=300)
    save_checkpoint(build_model(SHAPE, tokenizer, seed=1), tokenizer, tmp_path)
    settings = ModelSettings(pair=f"{tiny_target}+{tmp_path}", **CPU)
    with pytest.raises(ModelError, match="tokenizers differ"):
        load_pair_folders(find_pair(settings, needs_draft=True), settings)


def test_an_unknown_family_is_named(tiny_target: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_target, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "llava"}))
    with pytest.raises(ModelError, match="'llava'"):
        load_model(folder, torch.device("cpu"), torch.float32)


def test_damaged_weights_are_one_line(tiny_target: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_target, folder)
    weights = next(folder.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        load_model(folder, torch.device("cpu"), torch.float32)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(("name", "kind"), [("warp", UsageError), ("mps", UsageError)])
def test_devices_that_do_not_exist(tiny_target: Path, name: str, kind: type[Exception]) -> None:
    settings = ModelSettings(pair=str(tiny_target), device=name)
    with pytest.raises(kind, match=name):
        load_pair_folders(find_pair(settings, needs_draft=False), settings)
