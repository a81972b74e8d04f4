"""A prompt prefilled in pieces is the prompt prefilled at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from tests.engine.runs import Run
from tests.tiny import random_frames
from vidcap.engine.decoder import Decoder
from vidcap.engine.probe import Needs, Probe
from vidcap.errors import UsageError
from vidcap.models.loading import load_model, load_pair_folders
from vidcap.models.pair import find_pair
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.settings import (
    METHODS,
    AttentionName,
    ModelSettings,
    SpeculationSettings,
    method_settings,
)

QUESTION = "What moves?"
METHODS_IN_CHUNKS: dict[str, SpeculationSettings] = {
    "plain": method_settings("plain", prefill_chunk=7),
    "chain": method_settings("sd", prefill_chunk=7),
    "auto": method_settings("auto", prefill_chunk=30),
    "attention": method_settings("specvlm", prefill_chunk=7),
    "uv": method_settings("sd", prune=0.8, prune_by="uv", prefill_chunk=20),
    "self": method_settings("self", prefill_chunk=20),
    "beside, uv": method_settings("parallelvlm", prefill_chunk=11),
    "beside, attention": method_settings(
        "parallelvlm", prune_by="attention", prune_select="two-stage", prefill_chunk=20
    ),
    "beside, whole": method_settings("sd-tree", prefill="parallel", prefill_chunk=20),
    "arms": method_settings("sd", arms=("full", "text"), prefill_chunk=20),
    "loose": method_settings("lvspec", loose_fraction=0.0, prefill_chunk=20),
}


@pytest.fixture(scope="module")
def models(tiny_target: Path, tiny_perturbed: Path) -> dict[str, Qwen25VL]:
    folders = {"target": tiny_target, "near": tiny_perturbed}
    cpu = torch.device("cpu")
    return {name: load_model(path, cpu, torch.float32) for name, path in folders.items()}


def make_run(models: dict[str, Qwen25VL]) -> Run:
    inputs = models["target"].prepare(random_frames(8, 56, 112), fps=2.0)
    return Run(models["target"], models["near"], inputs, max_tokens=24)


@pytest.fixture(scope="module")
def expected(models: dict[str, Qwen25VL]) -> list[int]:
    return make_run(models).transformers(QUESTION)


@torch.inference_mode()
@pytest.mark.parametrize("attention", ["auto", "sdpa"])
@pytest.mark.parametrize("chunk", [1, 7, 20, 64])
def test_pieces_leave_what_one_call_leaves(
    tiny_target: Path, chunk: int, attention: AttentionName
) -> None:
    """Keys, values, and everything that a pass can be asked for; pieces without video too."""
    settings = ModelSettings(
        pair=str(tiny_target), device="cpu", dtype="float32", threads=1, attention=attention
    )
    target = load_pair_folders(find_pair(settings, needs_draft=False), settings).target
    prefix = target.encode(target.prepare(random_frames(8, 56, 112), 2.0), "reference")
    assert int(prefix.visual_index[0]) > 7
    needs = Needs(layer_inputs=frozenset({1}), visual_inputs=frozenset({0, 2}), visual_output=True)
    probes = [Probe(needs, prefix.visual_index) for _ in range(2)]
    whole = Decoder.prefill(target.language, prefix, probes[0])
    pieces = Decoder.prefill(target.language, prefix, probes[1], chunk=chunk)
    close = partial(torch.testing.assert_close, atol=1e-4, rtol=1e-3)
    assert pieces.kv.prefix_length == whole.kv.prefix_length == prefix.length
    for got, right in zip(pieces.kv.prefix, whole.kv.prefix, strict=True):
        close(got, right)
    assert probes[1].layer_inputs.keys() == {0, 1, 2}
    for layer, right in probes[0].layer_inputs.items():
        close(probes[1].layer_inputs[layer], right)
    close(probes[1].visual_output, probes[0].visual_output)
    ids = torch.tensor([[70, 71, 72]])
    close(pieces.fork(64).append(ids), whole.fork(64).append(ids))


@pytest.mark.parametrize("method", METHODS_IN_CHUNKS.values(), ids=METHODS_IN_CHUNKS.keys())
def test_methods_with_pieces_equal_generate(
    models: dict[str, Qwen25VL], expected: list[int], method: SpeculationSettings
) -> None:
    """No call of either model runs more rows of the video than it was told."""
    rows: list[int] = []
    handles = [
        model.model.model.language_model.register_forward_pre_hook(
            lambda _, args, kwargs: rows.append(
                kwargs["inputs_embeds"].shape[1] if "vidcap" in kwargs else 0
            ),
            with_kwargs=True,
        )
        for model in models.values()
    ]
    tokens, stats = make_run(models).ask(QUESTION, method)
    for handle in handles:
        handle.remove()
    assert tokens == expected
    suffix = models["target"].suffix_ids(QUESTION).shape[1]
    assert max(rows) <= max(method.prefill_chunk, suffix)
    assert rows.count(method.prefill_chunk) > 1
    assert stats.drafted > 0 or method.method == "plain"


def test_every_layer_of_every_piece_is_reported(models: dict[str, Qwen25VL]) -> None:
    target, seen = models["target"], []
    prefix = target.encode(target.prepare(random_frames(8, 56, 112), 2.0), "reference")
    rows = -(-prefix.length // 3)
    with torch.inference_mode():
        Decoder.prefill(target.language, prefix, on_layer=seen.append, chunk=rows)
    assert seen == [0, 1, 2] * 3


def test_every_method_has_a_size_of_pieces_and_none_uses_it_unasked() -> None:
    for method in METHODS.values():
        assert "prefill_chunk" in method.parts()
        assert method.prefill_chunk == 0
    with pytest.raises(UsageError, match="prefill-chunk must be between 0 and"):
        method_settings("plain", prefill_chunk=-1)
