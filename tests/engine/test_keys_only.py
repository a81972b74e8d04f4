"""A prefill for keys and values ends where the last layer has them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from accelerate.hooks import ModelHook, add_hook_to_module

from tests.tiny import random_frames
from vidcap.engine.decoder import Decoder
from vidcap.engine.model import EncodedPrefix
from vidcap.engine.probe import Needs, Probe
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.models.released import ReleasedLanguageModel


@pytest.fixture(scope="module")
def model(tiny_target: Path) -> Qwen25VL:
    return load_model(tiny_target, torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def prefix(model: Qwen25VL) -> EncodedPrefix:
    with torch.inference_mode():
        return model.encode(model.prepare(random_frames(6), 2.0), "reference")


@torch.inference_mode()
def rows_of_each_layer(
    model: Qwen25VL,
    prefix: EncodedPrefix,
    language: ReleasedLanguageModel | None = None,
    probe: Probe | None = None,
    chunk: int = 0,
) -> tuple[Decoder, list[int]]:
    """The decoder behind a prefix, and how many rows the MLP of each layer ran over."""
    layers = model.model.model.language_model.layers
    rows = [0] * len(layers)

    def count(layer: int, states: torch.Tensor) -> None:
        rows[layer] += states.shape[1]

    handles = [
        layer.mlp.register_forward_pre_hook(lambda _, args, at=at: count(at, args[0]))
        for at, layer in enumerate(layers)
    ]
    decoder = Decoder.prefill(language or model.language, prefix, probe, chunk=chunk)
    for handle in handles:
        handle.remove()
    return decoder, rows


@pytest.mark.parametrize("chunk", [0, 10])
def test_the_last_layer_ends_with_its_keys_and_values(
    model: Qwen25VL, prefix: EncodedPrefix, chunk: int
) -> None:
    probe = Probe(Needs(visual_output=True), prefix.visual_index)
    whole, every = rows_of_each_layer(model, prefix, probe=probe, chunk=chunk)
    short, spared = rows_of_each_layer(model, prefix, chunk=chunk)
    assert every == [prefix.length] * 3
    assert spared == [*every[:-1], 0]
    assert probe.visual_output.shape[1] == len(prefix.visual_index)
    for got, expected in zip(short.kv.prefix, whole.kv.prefix, strict=True):
        assert all(map(torch.equal, got, expected))


def test_inputs_of_layers_are_collected_all_the_same(
    model: Qwen25VL, prefix: EncodedPrefix
) -> None:
    probe = Probe(Needs(layer_inputs=frozenset({2})), prefix.visual_index)
    _, rows = rows_of_each_layer(model, prefix, probe=probe)
    assert rows[-1] == 0
    assert probe.layer_inputs[2].shape[1] == prefix.length


def test_a_layer_that_others_tidy_up_behind_runs_to_its_end(
    tiny_target: Path, prefix: EncodedPrefix
) -> None:
    model = load_model(tiny_target, torch.device("cpu"), torch.float32)
    add_hook_to_module(model.model.model.language_model.layers[-1], ModelHook())
    language = ReleasedLanguageModel(model.model)
    _, rows = rows_of_each_layer(model, prefix, language)
    assert rows == [prefix.length] * 3
