"""Models whose layers lie in several places.

There is no GPU here. Weights that are brought from the disk whenever a layer runs take the same way
through transformers and accelerate as those that are brought from main memory to a GPU; that runs
for real. Which tensor is on which of several GPUs is followed with fake tensors, which know their
device, refuse operations across devices, and have no numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from typer.testing import CliRunner

from tests.engine.runs import Run
from tests.models.families import BUILDERS, DRAFT, TARGET, write_family
from tests.models.family_checks import frames_for
from vidcap.cli.app import app
from vidcap.demo.clips import write_mp4
from vidcap.demo.scenes import sample_scene
from vidcap.engine.attention import ATTENTION_NAME, register
from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.source import SelfSource
from vidcap.engine.model import EncodedPrefix
from vidcap.engine.probe import Needs, Probe
from vidcap.errors import ModelError
from vidcap.models import devices
from vidcap.models.devices import device_map
from vidcap.models.facts import read_facts
from vidcap.models.loading import LoadedPair, load_model, load_pair_folders
from vidcap.models.machine import Device
from vidcap.models.memory import nominal_load
from vidcap.models.pair import find_pair
from vidcap.models.placement import Placement, shares_of
from vidcap.models.released import ReleasedLanguageModel
from vidcap.models.work import Form
from vidcap.settings import ModelSettings, method_settings

CPU = torch.device("cpu")
GPUS = [torch.device("cuda", index) for index in range(3)]
WRAPPED = ("qwen3_vl", False)
SPREAD = Placement("cuda:0", ("cuda:0", "cuda:1", "cuda:2"))


@pytest.fixture(scope="module", params=list(BUILDERS))
def folders(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    root, family = tmp_path_factory.mktemp(request.param), request.param
    target = write_family(root / "target", family, shard_size="100KB")
    return target, write_family(root / "draft", family, DRAFT, seed=2)


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch, folders: tuple[Path, Path]) -> None:
    """Main memory for a pair but two layers of its target, and a disk for these."""
    target, draft = (read_facts(folder) for folder in folders)
    need = shares_of(target, draft, nominal_load(target), Form("float32", on_cpu=True))
    # One layer, and in its turn another; the keys and values of all three.
    room = need.first + 3 * need.keys_values + 2 * need.weights + need.weights // 2
    places = (Device("cpu", "", round(room / 0.95) + 1, False), Device("disk", "", None, False))
    monkeypatch.setattr(devices, "find_devices", lambda name: places)


def settings_for(folders: tuple[Path, Path], **parts: Any) -> ModelSettings:
    given = {"device": "cpu,disk", "dtype": "float32", "threads": 1} | parts
    return ModelSettings(pair="+".join(map(str, folders)), **given)


def load(settings: ModelSettings) -> LoadedPair:
    return load_pair_folders(find_pair(settings, needs_draft=True), settings)


@pytest.mark.usefixtures("small_machine")
def test_layers_brought_when_they_run_change_no_token(folders: tuple[Path, Path]) -> None:
    pair = load(settings_for(folders))
    assert pair.device == "cpu,disk"
    (warning,) = pair.warnings
    assert warning.startswith("2 of the target's 3 layers have no room")
    layers = pair.target.model.model.language_model.layers
    assert [layer.mlp.up_proj.weight.device.type for layer in layers] == ["cpu", "meta", "meta"]
    assert pair.target.language.kv_spec.devices == (CPU,)
    whole = load_model(folders[0], CPU, torch.float32)
    inputs = whole.prepare(frames_for(whole, 5), 2.0)
    expected = Run(whole, pair.draft, inputs, max_tokens=8).transformers("What moves?")
    spread = Run(pair.target, pair.draft, inputs, max_tokens=8)
    for method in (
        method_settings("specvlm"),
        method_settings("sd", prune_by="uv", prune=0.5),
        method_settings("self", prune=0.5),
    ):
        assert spread.ask("What moves?", method)[0] == expected, method


def test_packing_layers_that_are_kept_elsewhere_is_refused(
    folders: tuple[Path, Path], small_machine: None
) -> None:
    with pytest.raises(ModelError, match=r"--quantize: 2 layers of .* have no room"):
        load(settings_for(folders, quantize="int8"))


def test_what_has_no_room_anywhere_is_told(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = (Device("cpu", "", 10**8, False), Device("disk", "", None, False))
    monkeypatch.setattr(devices, "find_devices", lambda name: places)
    with pytest.raises(ModelError, match="has no room on cpu, disk"):
        load(settings_for(folders))


def test_a_list_of_gpus_needs_gpus(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = tuple(Device(f"cuda:{index}", "GPU", 10**10, True) for index in range(2))
    monkeypatch.setattr(devices, "find_devices", lambda name: gpus)
    with pytest.raises(ModelError, match="torch sees no CUDA device"):
        load(settings_for(folders, device="cuda:0,cuda:1"))
    # A driver without a torch that knows it.
    assert load(settings_for(folders, device="auto")).device == "cpu"


@pytest.mark.usefixtures("small_machine")
def test_the_command_line_warns_once(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mp4(sample_scene(3), tmp_path / "clip.mp4")
    pair = "+".join(map(str, folders))
    words = ["describe", str(tmp_path / "clip.mp4"), "--pair", pair, "--max-frames", "2"]
    words += ["--max-tokens", "3", "--dtype", "float32", "--threads", "1", "--format", "json"]
    words += ["--device", "cpu,disk"]
    # A run sets these where they are not set; here they must not outlive the test.
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert '"device":"cpu,disk"' in result.stdout.replace(" ", "")
    warning = "vidcap: warning: 2 of the target's 3 layers have no room"
    assert result.stderr.count(warning) == len(result.stderr.splitlines()) == 1


class Spread:
    """A model of fake tensors over three GPUs, and a prompt for it."""

    def __init__(self, family: str, *, lean: bool):
        from accelerate import dispatch_model

        with torch.device("meta"):
            model, _ = BUILDERS[family](TARGET)
        places = device_map(model, SPREAD)
        for name, device in places.items():
            move(model, name, torch.device("cuda", int(device)))
        model.set_attn_implementation({"text_config": ATTENTION_NAME})
        dispatch_model(model.eval(), places)
        self.language = ReleasedLanguageModel(model, lean=lean)
        ids = torch.arange(10, 50, device=GPUS[0])[None]
        order = torch.arange(40, device=GPUS[0])
        axes = (1, 40) if family == "llava_onevision" else (3, 1, 40)
        self.visual = torch.arange(4, 34, device=GPUS[0])
        features = self.language.embed(ids[:, 4:34]) if family == "qwen3_vl" else None
        self.prefix = EncodedPrefix(
            ids=ids,
            embeds=self.language.embed(ids),
            position_ids=order.expand(axes),
            visual_index=self.visual,
            suffix_start=40,
            grid=(5, 2, 3),
            deepstack=() if features is None else (features, features),
        )


def move(model: nn.Module, name: str, device: torch.device) -> None:
    """Give a part of a model fake tensors on a device."""
    parent, _, leaf = name.rpartition(".")
    owner = model.get_submodule(parent)
    if leaf in owner._parameters:
        parts = [(owner, [leaf])]
    else:
        modules = owner.get_submodule(leaf).modules()
        parts = [(module, [*module._parameters, *module._buffers]) for module in modules]
    for module, names in parts:
        for each in names:
            weight = getattr(module, each)
            if weight is None:
                continue
            fake = torch.empty(weight.shape, dtype=weight.dtype, device=device)
            is_buffer = each in module._buffers
            setattr(module, each, fake if is_buffer else nn.Parameter(fake, requires_grad=False))


@pytest.fixture
def fake() -> Iterator[None]:
    register()
    with FakeTensorMode(), torch.no_grad():
        yield


@pytest.mark.usefixtures("fake")
def test_fake_tensors_refuse_operations_across_gpus() -> None:
    one, other = (torch.ones(2, 2, device=device) for device in GPUS[:2])
    with pytest.raises(RuntimeError, match="same device"):
        one @ other
    assert (one.to(GPUS[1]) @ other).device == GPUS[1]


@pytest.mark.usefixtures("fake")
@pytest.mark.filterwarnings("ignore:Accessing the data pointer", "ignore:The following device_map")
@pytest.mark.parametrize(("family", "lean"), [*((name, True) for name in BUILDERS), WRAPPED])
def test_every_layer_runs_and_keeps_its_rows_on_its_gpu(family: str, lean: bool) -> None:
    spread = Spread(family, lean=lean)
    model, first = spread.language, GPUS[0]
    assert list(model.kv_spec.devices) == list(model.kv_spec.layer_devices) == GPUS
    seen = Probe(Needs(frozenset({2}), frozenset({1}), visual_output=True), spread.visual)
    prefix = spread.prefix
    if family == "qwen3_vl":  # the release finds the rows of the features by their number
        prefix = replace(prefix, deepstack=())
    decoder = Decoder.prefill(model, prefix, seen).fork(100)
    assert [key.device for key, _ in decoder.kv.prefix] == GPUS
    assert [tail.device for tail in decoder.kv.tails] == GPUS
    assert {states.device for states in seen.layer_inputs.values()} == {first}
    text = torch.arange(4, device=first)
    asked = Probe(Needs(visual_attention=True, visual_mass=True), spread.visual, text_columns=text)
    hidden = decoder.append(torch.arange(60, 66, device=first)[None], asked)
    assert hidden.device == asked.attention.device == asked.mass.device == first
    tree = torch.arange(100, 105, device=first)[None]
    mask = torch.ones(1, 5, 5, dtype=torch.bool, device=first).tril()
    nodes = model.logits(decoder.run(tree, torch.zeros_like(tree), mask))
    assert (nodes.shape[:2], nodes.device) == ((1, 5), first)
    decoder.commit([0, 2, 4])
    single = decoder.append(torch.tensor([[50]], device=first))
    assert model.logits(single).device == first


@pytest.mark.usefixtures("fake")
@pytest.mark.filterwarnings("ignore:Accessing the data pointer")
def test_a_target_that_drafts_for_itself_gathers_rows_on_every_gpu() -> None:
    spread = Spread("qwen2_5_vl", lean=True)
    target = Decoder.prefill(spread.language, spread.prefix).fork(64)
    question = torch.arange(60, 66, device=GPUS[0])[None]
    target.append(question)
    draft = SelfSource().decoder(question, None, compact=False, rows=64, target=target)
    assert [tail.device for tail in draft.kv.tails] == GPUS
    assert draft.append(question).device == GPUS[0]


def test_the_device_map_names_every_part_once() -> None:
    for build in BUILDERS.values():
        with torch.device("meta"):
            model, _ = build(TARGET)
        names = device_map(model, Placement("cuda:1", ("cuda:1", "cuda:3", "cpu")))
        layers = {name: place for name, place in names.items() if ".layers." in name}
        assert list(layers.values()) == [1, 3, "cpu"]
        assert {place for name, place in names.items() if name not in layers} == {1}
        for weight, _ in [*model.named_parameters(), *model.named_buffers()]:
            owners = [name for name in names if weight == name or weight.startswith(name + ".")]
            assert len(owners) == 1, weight


def test_free_memory_is_asked_of_gpus_only(monkeypatch: pytest.MonkeyPatch) -> None:
    free = {"cuda:0": 5 * 10**9, "cuda:1": 10**11}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free[str(device)], 24 * 10**9))
    gpu = Device("cuda:0", "GPU", 10 * 10**9, bf16=True)
    assert devices.free_bytes(gpu) == 5 * 10**9
    assert devices.free_bytes(replace(gpu, name="cuda:1")) == 9_500_000_000
    assert devices.free_bytes(replace(gpu, name="cpu")) == 9_500_000_000
