"""Finding, loading and matching pairs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.tiny import SHAPE
from vidcap.demo.checkpoint import build_model, save_checkpoint
from vidcap.demo.tokenizer import train_tokenizer
from vidcap.errors import ModelError, UsageError
from vidcap.models import facts, hub, pair
from vidcap.models.loading import load_model, load_pair_folders
from vidcap.models.machine import Device
from vidcap.models.pair import choose_pair, find_pair, presets
from vidcap.settings import ModelSettings

CPU = {"device": "cpu", "dtype": "float32", "threads": 1}


GPU = Device("cuda:0", "a large GPU", 90_000_000_000, bf16=True)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[Device], None]:
    """Makes this machine one with that device."""
    return lambda device: monkeypatch.setattr(pair, "find_devices", lambda name: (device,))


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tiny_target: Path) -> set[str]:
    """Names of Qwen2.5-VL sizes that count as cached: add some."""
    sizes: set[str] = set()

    def found(name: str, revision: str | None = None, **how: object) -> Path | None:
        return tiny_target if name in {f"Qwen/Qwen2.5-VL-{n}-Instruct" for n in sizes} else None

    monkeypatch.setattr(pair, "cached_model", found)
    monkeypatch.setattr(pair, "find_model", found)
    return sizes


def test_presets_are_pairs_of_models_whose_sizes_are_known() -> None:
    tables = facts.pair_tables()
    assert set(presets()) == set(tables["pairs"])
    assert presets()["demo"].builtin
    assert presets()["qwen2.5-vl-7b"].draft == "Qwen/Qwen2.5-VL-3B-Instruct"
    for preset in presets().values():
        if not preset.builtin:
            assert {preset.target, preset.draft} <= set(tables["models"])
            target, draft = (facts.known_facts(n) for n in (preset.target, preset.draft))
            assert target.parameters > 2 * draft.parameters
            assert target.family == draft.family


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


def test_a_missing_folder_is_told_before_a_missing_draft(tiny_target: Path, tmp_path: Path) -> None:
    for name in ("./missing-folder", str(tmp_path / "missing"), "~/no/such/folder"):
        for settings in (ModelSettings(pair=name), ModelSettings(target=name)):
            with pytest.raises(ModelError, match="no model folder") as caught:
                find_pair(settings, needs_draft=True)
            assert name in caught.value.message
    with pytest.raises(ModelError, match=r"config\.json is missing"):
        find_pair(ModelSettings(pair=str(tmp_path)), needs_draft=True)


@pytest.mark.parametrize("name", ["nosuchpreset", "+x/y", "a/b+"])
def test_names_that_cannot_be_pairs(name: str) -> None:
    with pytest.raises(UsageError):
        find_pair(ModelSettings(pair=name), needs_draft=False)


def test_without_a_cached_preset_nothing_runs_silently(
    cache: set[str], machine: Callable[[Device], None]
) -> None:
    machine(GPU)
    with pytest.raises(ModelError, match="no model is cached") as caught:
        find_pair(ModelSettings(), needs_draft=True)
    assert caught.value.exit_code == 3
    # The 32B target with the 7B draft does not fit 90 GB, with the 3B draft it does.
    assert "`vidcap models pull qwen2.5-vl-32b-3b` (74 GB)" in (caught.value.hint or "")
    assert "--pair demo" in (caught.value.hint or "")


def test_the_default_is_the_largest_cached_preset_that_fits(
    cache: set[str], machine: Callable[[Device], None]
) -> None:
    machine(GPU)
    cache |= {"72B", "7B", "3B"}
    assert find_pair(ModelSettings(), needs_draft=True).name == "qwen2.5-vl-7b"
    cache.add("32B")
    assert find_pair(ModelSettings(), needs_draft=True).name == "qwen2.5-vl-32b-3b"
    assert find_pair(ModelSettings(), needs_draft=False).name == "qwen2.5-vl-32b"
    assert find_pair(ModelSettings(dtype="float32"), needs_draft=True).name == "qwen2.5-vl-7b"
    machine(replace(GPU, memory_bytes=None))
    assert find_pair(ModelSettings(), needs_draft=True).name == "qwen2.5-vl-72b"


def test_the_largest_preset_is_found_wherever_it_stands_in_the_table(
    monkeypatch: pytest.MonkeyPatch, machine: Callable[[Device], None], tiny_target: Path
) -> None:
    monkeypatch.setattr(pair, "cached_model", lambda name, revision=None: tiny_target)
    machine(replace(GPU, memory_bytes=None))
    tables = facts.pair_tables()
    turned = tables | {"pairs": dict(reversed(tables["pairs"].items()))}
    for content in (tables, turned):
        monkeypatch.setattr(pair, "pair_tables", lambda content=content: content)
        settings = ModelSettings()
        assert pair.default_pair(settings, needs_draft=True).name == "qwen2.5-vl-72b"
        assert pair.suggested_pair(settings, needs_draft=True).name == "qwen2.5-vl-72b"
        assert pair.smallest_pair().name == "qwen2.5-vl-7b"
    # In the table, llava-onevision-72b stands behind qwen3-vl-8b, and that behind qwen2.5-vl-7b.
    machine(replace(GPU, memory_bytes=40_000_000_000))
    assert pair.default_pair(ModelSettings(), needs_draft=True).name == "qwen3-vl-8b"
    cached = {"qwen3-vl-32b", "llava-onevision-72b-0.5b", "qwen2.5-vl-32b"}
    monkeypatch.setattr(
        pair,
        "cached_model",
        lambda name, revision=None: any(
            name in (presets()[preset].target, presets()[preset].draft) for preset in cached
        ),
    )
    machine(replace(GPU, memory_bytes=None))
    assert pair.default_pair(ModelSettings(), needs_draft=True).name == "llava-onevision-72b-0.5b"


def test_a_draft_on_its_own_device_needs_room_there_only(
    cache: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # An older GPU for the draft, which then runs in the target's number format all the same.
    older = replace(GPU, name="cuda:1", memory_bytes=24_000_000_000, bf16=False)
    devices = {"cuda:0": GPU, "cuda:1": older}
    monkeypatch.setattr(pair, "find_devices", lambda name: (devices[name],))
    cache |= {"32B", "7B"}
    settings = ModelSettings(device="cuda:0", draft_device="cuda:1")
    assert find_pair(settings, needs_draft=True).name == "qwen2.5-vl-32b"


def test_a_cached_preset_that_does_not_fit_is_named(
    cache: set[str], machine: Callable[[Device], None]
) -> None:
    machine(replace(GPU, memory_bytes=8_000_000_000))
    cache |= {"7B", "3B"}
    with pytest.raises(ModelError, match="no cached pair fits this machine") as caught:
        find_pair(ModelSettings(), needs_draft=True)
    assert "`--pair qwen2.5-vl-7b` uses it nevertheless" in (caught.value.hint or "")


def test_what_is_cached_is_used_without_asking_the_hub(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "pull_model", lambda *a, **k: pytest.fail("the hub was asked"))
    assert hub.find_model("someone/model") == hub.cached_model("someone/model")


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


@pytest.fixture
def hub_cache(tiny_target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The snapshot of ``someone/model`` in a cache of the hub's form."""
    from huggingface_hub import constants

    revision = "0" * 40
    repository = tmp_path / "models--someone--model"
    shutil.copytree(tiny_target, repository / "snapshots" / revision)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(revision)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return repository / "snapshots" / revision


def test_the_hub_layout_of_a_cache_is_found(hub_cache: Path) -> None:
    found = hub.find_model("someone/model", offline=True)
    assert found == hub_cache
    assert hub.cached_model("someone/model") == found
    assert hub.cached_model("someone/other") is None


def test_a_revision_names_the_snapshot_that_is_used(hub_cache: Path) -> None:
    commit = "1" * 40
    other = hub_cache.with_name(commit)
    shutil.copytree(hub_cache, other)
    (hub_cache.parents[1] / "refs" / "v1").write_text(commit)
    for revision in ("v1", commit):
        assert hub.find_model("someone/model", revision=revision, offline=True) == other
    assert hub.find_model("someone/model", offline=True) == hub_cache
    assert hub.cached_model("someone/model", "v2") is None
    with pytest.raises(ModelError, match="offline"):
        hub.find_model("someone/model", revision="v2", offline=True)


def test_a_name_may_say_its_own_revision(hub_cache: Path) -> None:
    commit = "1" * 40
    other = hub_cache.with_name(commit)
    shutil.copytree(hub_cache, other)
    (hub_cache.parents[1] / "refs" / "refs").mkdir()
    (hub_cache.parents[1] / "refs" / "refs" / "pr").write_text(commit)
    assert hub.find_model("someone/model@refs/pr", offline=True) == other
    assert hub.find_model(f"someone/model@{commit}", revision="main", offline=True) == other
    assert hub.find_model("someone/model@main", revision=commit, offline=True) == hub_cache
    pinned = choose_pair(ModelSettings(pair=f"someone/model@{commit}+someone/model@main"))
    assert pinned is not None
    assert pinned.draft is not None
    assert [hub.local_model(name) for name in (pinned.target, pinned.draft)] == [other, hub_cache]
    for wrong in ("someone/model@", "someone/model@../x", "someone/model@a/../x"):
        with pytest.raises(ModelError, match="no model folder"):
            hub.find_model(wrong, offline=True)


@pytest.mark.parametrize("with_index", [True, False])
def test_an_interrupted_download_does_not_count_as_cached(
    hub_cache: Path, with_index: bool
) -> None:
    weights = next(hub_cache.glob("*.safetensors"))
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    weights.rename(hub_cache / names[0])
    index = hub_cache / "model.safetensors.index.json"
    content = json.dumps({"weight_map": {"a": names[0], "b": names[1]}})
    if with_index:
        index.write_text(content)
    assert hub.cached_model("someone/model") is None
    words = f"{1 if with_index else 2} weight files are missing, {names[1]}"
    with pytest.raises(ModelError, match=words) as caught:
        hub.find_model(str(hub_cache))
    assert "vidcap models pull" in (caught.value.hint or "")
    shutil.copy(hub_cache / names[0], hub_cache / names[1])
    if not with_index:
        assert hub.cached_model("someone/model") is None
        index.write_text(content)
    assert hub.cached_model("someone/model") == hub_cache


def test_a_pair_loads_and_says_what_it_runs_on(tiny_target: Path, tiny_draft: Path) -> None:
    settings = ModelSettings(pair=f"{tiny_target}+{tiny_draft}", **CPU)
    loaded = load_pair_folders(find_pair(settings, needs_draft=True), settings)
    assert (loaded.device, loaded.dtype) == ("cpu", "float32")
    assert loaded.draft is not None


def test_a_draft_with_other_tokens_is_refused(tiny_target: Path, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["completely different words in here"] * 3, size=300)
    save_checkpoint(build_model(SHAPE, tokenizer, seed=1), tokenizer, tmp_path)
    words = r"tokenizers differ \(\d+ of \d+ tokens have other ids, '.*' for one\)"
    assert re.search(words, _mismatch(tiny_target, tmp_path))


def _change(folder: Path, name: str, **values: object) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda folder: (folder / "chat_template.jinja").write_text(
                (folder / "chat_template.jinja").read_text().replace("assistant", "model")
            ),
            "their chat templates differ ('",
        ),
        (
            lambda folder: _change(folder, "generation_config.json", eos_token_id=[9, 10]),
            "their stop tokens differ ('",
        ),
    ],
    ids=["template", "stop tokens"],
)
def test_what_else_keeps_two_models_apart_is_named(
    tiny_target: Path, tiny_draft: Path, tmp_path: Path, change: Callable, words: str
) -> None:
    folder = tmp_path / "draft"
    shutil.copytree(tiny_draft, folder)
    change(folder)
    assert words in _mismatch(tiny_target, folder)


def test_a_draft_that_knows_one_of_the_stop_tokens_will_do(
    tiny_target: Path, tiny_draft: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "draft"
    shutil.copytree(tiny_draft, folder)
    stop = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
    one = stop[0] if isinstance(stop, list) else stop
    _change(folder, "generation_config.json", eos_token_id=[one, 9])
    settings = ModelSettings(pair=f"{tiny_target}+{folder}", **CPU)
    assert load_pair_folders(find_pair(settings, needs_draft=True), settings).draft is not None


def _mismatch(target: Path, draft: Path) -> str:
    settings = ModelSettings(pair=f"{target}+{draft}", **CPU)
    with pytest.raises(ModelError, match="do not make a pair") as caught:
        load_pair_folders(find_pair(settings, needs_draft=True), settings)
    return caught.value.message


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
    with pytest.raises(ModelError, match="is damaged") as caught:
        load_model(folder, torch.device("cpu"), torch.float32)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(("name", "kind"), [("warp", UsageError), ("mps", UsageError)])
def test_devices_that_do_not_exist(tiny_target: Path, name: str, kind: type[Exception]) -> None:
    settings = ModelSettings(pair=str(tiny_target), device=name)
    with pytest.raises(kind, match=name):
        load_pair_folders(find_pair(settings, needs_draft=False), settings)
