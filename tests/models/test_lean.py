"""The lean decode step against the released forward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.models.families import BUILDERS, write_family
from tests.models.family_checks import frames_for
from vidcap.engine.decoder import Decoder
from vidcap.engine.tree import STATIC_TREE
from vidcap.models import lean
from vidcap.models.lean import has_lean_form
from vidcap.models.loading import load_model
from vidcap.models.packed import PackedLinear, PlainLinear
from vidcap.models.released import ReleasedLanguageModel

QUESTION = torch.tensor([[70, 71, 72, 73]])


@pytest.fixture(scope="module", params=list(BUILDERS))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family(tmp_path_factory.mktemp("lean"), request.param)


@pytest.fixture(scope="module")
def adapter(folder: Path) -> Any:
    adapter = load_model(folder, torch.device("cpu"), torch.float32)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        # A norm of ones would not show which head it belongs to.
        for name, weight in adapter.model.named_parameters():
            if name.endswith(("q_norm.weight", "k_norm.weight")):
                weight.copy_(torch.rand(weight.shape, generator=generator) + 0.5)
    return adapter


@torch.inference_mode()
def tail_logits(adapter: Any, model: ReleasedLanguageModel) -> list[torch.Tensor]:
    """Logits of a question, a tree and a single token behind a committed branch of the tree."""
    prefix = adapter.encode(adapter.prepare(frames_for(adapter, 8), 2.0), "reference")
    decoder = Decoder.prefill(model, prefix).fork(100)
    question = decoder.append(QUESTION)
    tokens = torch.arange(100, 100 + STATIC_TREE.size)[None]
    tree = STATIC_TREE.with_tokens(tokens)
    nodes = decoder.run(tree.tokens, tree.depths, tree.mask)
    decoder.commit([0, 2, 8])
    single = decoder.append(torch.tensor([[50]]))
    return [model.logits(hidden) for hidden in (question, nodes, single)]


@pytest.mark.parametrize("kind", [PackedLinear, PlainLinear])
def test_question_tree_and_single_rows_equal_the_released_forward(
    adapter: Any, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert has_lean_form(adapter.model.model.language_model)
    monkeypatch.setattr(lean, "linear_maker", lambda weights: kind)
    ours = tail_logits(adapter, ReleasedLanguageModel(adapter.model))
    released = tail_logits(adapter, ReleasedLanguageModel(adapter.model, lean=False))
    for lean_logits, wrapped in zip(ours, released, strict=True):
        torch.testing.assert_close(lean_logits, wrapped, atol=1e-4, rtol=1e-4)


def test_the_lean_step_does_not_call_the_released_forward(adapter: Any) -> None:
    calls: list[int] = []
    text = adapter.model.model.language_model
    handle = text.register_forward_pre_hook(lambda *args: calls.append(1))
    tail_logits(adapter, adapter.language)
    handle.remove()
    assert len(calls) == 2  # reading the prompt's embeddings, and the prefill of the prefix


@pytest.mark.parametrize(("kind", "copies"), [(PackedLinear, 3), (PlainLinear, 1)])
def test_the_weights_are_the_released_ones_and_fused_where_they_are_not_packed(
    folder: Path, kind: type, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForImageTextToText

    monkeypatch.setattr(lean, "linear_maker", lambda weights: kind)
    adapter = load_model(folder, torch.device("cpu"), torch.float32)
    released = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    expected = dict(released.named_parameters())
    assert {name for name, _ in adapter.model.named_parameters()} == set(expected)
    for name, weight in adapter.model.named_parameters():
        assert torch.equal(weight, expected[name]), name
    attention = adapter.model.model.language_model.layers[0].self_attn
    modules = (attention.q_proj, attention.k_proj, attention.v_proj)
    starts = {module.weight.untyped_storage().data_ptr() for module in modules}
    assert len(starts) == copies


def test_layers_of_another_form_take_the_released_forward(folder: Path) -> None:
    text = load_model(folder, torch.device("cpu"), torch.float32).model.model.language_model
    attention = text.layers[-1].self_attn
    bias, attention.q_proj.bias = attention.q_proj.bias, None
    if bias is None:
        attention.q_proj.bias = nn.Parameter(torch.zeros(attention.q_proj.out_features))
    assert not has_lean_form(text)
    attention.q_proj.bias = bias
    assert has_lean_form(text)
    if hasattr(attention, "q_norm"):
        del attention.q_norm
    else:
        attention.q_norm = nn.Identity()
    assert not has_lean_form(text)
