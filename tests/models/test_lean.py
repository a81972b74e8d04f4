"""The lean decode step against the released forward."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.tiny import random_frames
from vidcap.engine.decoder import Decoder
from vidcap.engine.tree import STATIC_TREE
from vidcap.models.lean import has_lean_form
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.models.released import ReleasedLanguageModel

QUESTION = torch.tensor([[70, 71, 72, 73]])


@pytest.fixture(scope="module")
def adapter(tiny_target: Path) -> Qwen25VL:
    return load_model(tiny_target, torch.device("cpu"), torch.float32)


@torch.inference_mode()
def tail_logits(adapter: Qwen25VL, model: ReleasedLanguageModel) -> list[torch.Tensor]:
    """Logits of a question, a tree and a single token behind a committed branch of the tree."""
    prefix = adapter.encode(adapter.prepare(random_frames(8), 2.0), "reference")
    decoder = Decoder.prefill(model, prefix).fork(100)
    question = decoder.append(QUESTION)
    tokens = torch.arange(100, 100 + STATIC_TREE.size)[None]
    tree = STATIC_TREE.with_tokens(tokens)
    nodes = decoder.run(tree.tokens, tree.depths, tree.mask)
    decoder.commit([0, 2, 8])
    single = decoder.append(torch.tensor([[50]]))
    return [model.logits(hidden) for hidden in (question, nodes, single)]


def test_question_tree_and_single_rows_equal_the_released_forward(adapter: Qwen25VL) -> None:
    assert has_lean_form(adapter.model.model.language_model)
    wrapped = tail_logits(adapter, ReleasedLanguageModel(adapter.model, lean=False))
    lean = tail_logits(adapter, adapter.language)
    for ours, released in zip(lean, wrapped, strict=True):
        torch.testing.assert_close(ours, released, atol=1e-4, rtol=1e-4)


def test_the_lean_step_does_not_call_the_released_forward(adapter: Qwen25VL) -> None:
    calls: list[int] = []
    text = adapter.model.model.language_model
    handle = text.register_forward_pre_hook(lambda *args: calls.append(1))
    tail_logits(adapter, adapter.language)
    handle.remove()
    assert len(calls) == 2  # reading the prompt's embeddings, and the prefill of the prefix


def test_fused_weights_are_the_released_ones_and_take_no_extra_memory(
    adapter: Qwen25VL, tiny_target: Path
) -> None:
    from transformers import AutoModelForImageTextToText

    released = AutoModelForImageTextToText.from_pretrained(tiny_target, dtype=torch.float32)
    expected = dict(released.named_parameters())
    assert {name for name, _ in adapter.model.named_parameters()} == set(expected)
    for name, weight in adapter.model.named_parameters():
        assert torch.equal(weight, expected[name]), name
    attention = adapter.model.model.language_model.layers[0].self_attn
    storages = {
        module.weight.untyped_storage().data_ptr()
        for module in (attention.q_proj, attention.k_proj, attention.v_proj)
    }
    assert len(storages) == 1
