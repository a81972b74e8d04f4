from __future__ import annotations

import json
import shutil

import pytest

from vidcap.errors import ModelError
from vidcap.models import catalogue, hub, pair
from vidcap.models.machine import Device
from vidcap.parts import part_keys
from vidcap.settings import METHODS

BIG = "Qwen/Qwen2.5-VL-7B-Instruct"
SMALL = "Qwen/Qwen2.5-VL-3B-Instruct"


@pytest.fixture
def cache(tmp_path, monkeypatch, tiny_target):
    """An empty cache; the function it gives puts a tiny model there under a hub id."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(
        pair, "find_devices", lambda name: (Device("cuda:0", "GPU", 90_000_000_000, bf16=True),)
    )

    def add(name):
        repository = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        shutil.copytree(tiny_target, repository / "snapshots" / ("0" * 40))
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("0" * 40)
        return repository / "snapshots" / ("0" * 40)

    return add


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    """A connection is a failure."""
    monkeypatch.setattr("socket.socket.connect", lambda *args: pytest.fail("a connection"))


def test_list_tells_presets_sizes_methods_and_what_is_cached(cli, cache, tmp_path):
    cache(SMALL)
    result = cli("models", "list")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["pair", "target", "draft", "size", "cached", "fits"]
    rows = {line.split()[0]: line for line in lines[1:] if line}
    assert rows["qwen2.5-vl-72b"].split()[1:] == [
        *("Qwen/Qwen2.5-VL-72B-Instruct", BIG, "163", "GB", "no", "no")
    ]
    assert rows["qwen2.5-vl-7b"].endswith("draft only  yes")
    assert all(rows[name].split(maxsplit=1)[1] == METHODS[name].summary for name in METHODS)
    assert lines[-1] == f"cache: {tmp_path / 'hub'}"


def test_list_as_json_holds_the_same(cli, cache):
    folder = cache(SMALL)
    data = json.loads(cli("models", "list", "--format", "json").stdout)
    pairs = {entry["name"]: entry for entry in data["pairs"]}
    assert not pairs["qwen2.5-vl-7b"]["cached"]
    assert pairs["qwen2.5-vl-7b"]["target"] == {
        "name": BIG,
        "folder": None,
        "size_bytes": 16_584_333_312,
        "cached": False,
    }
    assert pairs["qwen2.5-vl-7b"]["draft"]["folder"] == str(folder)
    assert pairs["qwen2.5-vl-32b"]["size_bytes"] == 66_905_436_672 + 16_584_333_312
    assert [entry["name"] for entry in data["methods"]] == list(METHODS)


def test_list_has_the_demo_pair_as_far_as_it_is_there(cli, cache, monkeypatch, tiny_target):
    for module in (pair, catalogue):
        monkeypatch.setattr(module, "builtin_folder", lambda name: tiny_target)
    rows = cli("models", "list").stdout.splitlines()
    (demo,) = [row for row in rows if row.startswith("demo")]
    assert demo.split()[-3:] == ["kB", "yes", "yes"]

    def missing(name):
        raise ModelError("this installation lacks the demo model")

    for module in (pair, catalogue):
        monkeypatch.setattr(module, "builtin_folder", missing)
    result = cli("models", "list")
    assert result.exit_code == 0
    assert not [row for row in result.stdout.splitlines() if row.startswith("demo")]


def test_path_prints_target_and_draft_or_names_the_command(cli, cache):
    big = cache(BIG)
    result = cli("models", "path", "qwen2.5-vl-7b")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == (
        f"vidcap: error: model '{SMALL}' is not cached\n"
        "hint: `vidcap models pull qwen2.5-vl-7b` fetches it\n"
    )
    small = cache(SMALL)
    assert cli("models", "path", "qwen2.5-vl-7b").stdout == f"{big}\n{small}\n"
    assert cli("models", "path", SMALL).stdout == f"{small}\n"
    data = json.loads(cli("models", "path", "--format", "json", "qwen2.5-vl-7b").stdout)
    assert data == {BIG: str(big), SMALL: str(small)}


def test_show_tells_what_a_pair_consists_of_before_it_is_here(cli, cache):
    lines = cli("models", "show", "qwen2.5-vl-7b").stdout.splitlines()
    assert lines[0] == f"target  model            {BIG}"
    assert f"draft   model            {SMALL}" in lines
    for words in (
        "target  folder           not cached",
        "target  size             16.6 GB",
        "target  parameters       8.29 billion",
        "target  layers           28",
        "target  key/value heads  4 of 128",
        "target  context          128000 tokens",
        "target  stop tokens      <|im_end|> <|endoftext|>",
        "target  placeholders     <|video_pad|> <|image_pad|>",
    ):
        assert words in lines


def test_show_reads_a_folder(cli, tiny_target):
    data = json.loads(cli("models", "show", "--format", "json", tiny_target).stdout)
    assert (data["name"], data["folder"]) == (str(tiny_target), str(tiny_target))
    assert (data["family"], data["layers"], data["cached"]) == ("qwen2_5_vl", 3, True)
    assert data["size_bytes"] == sum(path.stat().st_size for path in tiny_target.iterdir())


@pytest.mark.parametrize("method", METHODS)
def test_show_lists_every_key_of_a_method_with_its_value(cli, method):
    data = json.loads(cli("models", "show", "--format", "json", method).stdout)
    assert list(data["settings"]) == part_keys()
    assert {key.replace("-", "_") for key in data["in_use"]} == METHODS[method].parts()
    assert data["settings"]["prune"] == METHODS[method].prune
    rows = [line.split()[0] for line in cli("models", "show", method).stdout.splitlines()[4:]]
    assert rows == part_keys()


def test_show_says_what_a_key_may_be(cli):
    out = cli("models", "show", "specvlm").stdout
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert rows["prune"] == ["prune", "0.9", "yes", "0", "to", "1"]
    assert rows["prune-by"] == ["prune-by", "attention", "yes", "attention|uv|uniform|random"]
    assert rows["uv-layer"] == ["uv-layer", "-", "no", "1", "to", "1000"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["show", "nonsense"], 2, "no pair preset and no folder 'nonsense'"),
        (["show", "someone/unknown"], 3, "model 'someone/unknown' is not cached, nothing is"),
        (["path", "sd"], 2, "'sd' is a method"),
        (["pull"], 2, "missing argument 'NAME'"),
        (["pull", "--offline", SMALL], 3, f"model '{SMALL}' is not cached and the run is offline"),
        (["nonsense"], 2, "no such command 'nonsense'"),
    ],
)
def test_what_cannot_be_done_is_one_line(cli, cache, monkeypatch, words, code, message):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    result = cli("models", *words)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.lower().startswith(f"vidcap: error: {message}".lower())


def test_pull_says_what_it_fetches_and_prints_the_folders(cli, cache, monkeypatch):
    monkeypatch.setattr(hub, "download_size", lambda name, revision: 7_509_245_952)
    pulled = []

    def pull(name, **how):
        pulled.append((name, how["revision"]))
        return cache(name)

    monkeypatch.setattr(hub, "pull_model", pull)
    result = cli("models", "pull", "qwen2.5-vl-7b", "--revision", "v1")
    assert result.exit_code == 0, result.stderr
    assert pulled == [(BIG, "v1"), (SMALL, "v1")]
    assert f"vidcap: notice: fetching {SMALL} (7.51 GB) to " in result.stderr
    assert [line.split("models--")[1].split("/")[0] for line in result.stdout.splitlines()] == [
        BIG.replace("/", "--"),
        SMALL.replace("/", "--"),
    ]


def test_pull_of_what_is_up_to_date_says_nothing(cli, cache, monkeypatch):
    folder = cache(SMALL)
    monkeypatch.setattr(hub, "download_size", lambda name, revision: 0)
    monkeypatch.setattr(hub, "pull_model", lambda name, **how: folder)
    result = cli("models", "pull", SMALL)
    assert (result.stdout, result.stderr) == (f"{folder}\n", "")


def test_pull_does_not_begin_what_the_disk_cannot_hold(cli, cache, monkeypatch):
    monkeypatch.setattr(hub, "download_size", lambda name, revision: 10**18)
    monkeypatch.setattr(hub, "pull_model", lambda *a, **k: pytest.fail("it was fetched"))
    result = cli("models", "pull", SMALL)
    assert result.exit_code == 3
    assert result.stderr.startswith(f"vidcap: error: {SMALL} needs 1000000 TB, ")
    assert "HF_HOME" in result.stderr


def test_pull_of_a_folder_fetches_nothing(cli, cache, tiny_target):
    assert cli("models", "pull", tiny_target).stdout == f"{tiny_target}\n"


def test_bare_models_prints_its_help(cli):
    result = cli("models")
    assert result.exit_code == 0
    assert "pull" in result.stdout


def test_show_of_what_is_nothing_names_pairs_and_methods(cli):
    hint = cli("models", "show", "eagel").stderr.splitlines()[1]
    assert hint.startswith("hint: presets: demo, ")
    assert hint.endswith(f"; methods: {', '.join(METHODS)}")
