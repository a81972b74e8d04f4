"""What vidcap relies on in transformers, one fact per test: a new release names what it broke."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.models.families import BUILDERS, write_family
from tests.models.family_checks import frames_for
from vidcap.engine.attention import ATTENTION_NAME
from vidcap.models.loading import load_model
from vidcap.models.released import capture_text_inputs


@pytest.fixture(scope="module", params=BUILDERS)
def adapter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = write_family(tmp_path_factory.mktemp(request.param), request.param)
    return load_model(folder, torch.device("cpu"), torch.float32)


def spied(adapter: Any, **arguments: Any) -> list[dict[str, Any]]:
    """What the registered attention function gets, layer by layer, in a text forward."""
    from transformers import AttentionInterface

    calls: list[dict[str, Any]] = []

    def spy(module: Any, query: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[Any, None]:
        calls.append({"layer": module.layer_idx, "mask": args[2], "shape": query.shape, **kwargs})
        return query.transpose(1, 2), None

    AttentionInterface.register("vidcap_spy", spy)
    adapter.model.set_attn_implementation({"text_config": "vidcap_spy"})
    try:
        with torch.no_grad():
            adapter.model.model.language_model(
                inputs_embeds=torch.zeros(1, 5, adapter.model.config.text_config.hidden_size),
                **arguments,
            )
    finally:
        adapter.model.set_attn_implementation({"text_config": ATTENTION_NAME})
    return calls


def test_an_unknown_keyword_reaches_the_attention_of_every_text_layer(adapter: Any) -> None:
    calls = spied(adapter, use_cache=False, vidcap="state")
    assert [call["layer"] for call in calls] == [0, 1, 2]
    assert {call["vidcap"] for call in calls} == {"state"}
    assert {tuple(call["shape"]) for call in calls} == {(1, 4, 5, 16)}
    assert all("scaling" in call for call in calls)


def test_without_a_mask_none_is_made_for_a_registered_name(adapter: Any) -> None:
    positions = torch.tensor([[0, 1, 1, 5, 9]])
    if adapter.tensor_names[-1] != "pixel_values_videos":
        positions = positions.expand(3, 1, -1)
    calls = spied(adapter, use_cache=False, position_ids=positions)
    assert {call["mask"] for call in calls} == {None}


def test_a_four_dimensional_mask_arrives_untouched(adapter: Any) -> None:
    mask = torch.zeros(1, 1, 5, 5)
    calls = spied(adapter, use_cache=False, attention_mask=mask)
    assert all(call["mask"] is mask for call in calls)


def test_no_cache_is_made(adapter: Any) -> None:
    with torch.no_grad():
        output = adapter.model.model.language_model(
            inputs_embeds=torch.zeros(1, 3, adapter.model.config.text_config.hidden_size),
            use_cache=False,
        )
    name = "cache" if hasattr(output, "cache") else "past_key_values"
    assert getattr(output, name) is None


def test_the_text_model_is_called_with_embeddings_and_what_we_read(adapter: Any) -> None:
    inputs = adapter.prepare(frames_for(adapter, 2), 2.0)
    captured = capture_text_inputs(adapter.model, adapter.arguments(inputs.ids, inputs))
    known = {"inputs_embeds", "position_ids", "attention_mask", "use_cache", "input_ids"}
    known |= {"visual_pos_masks", "deepstack_visual_embeds", "cache", "past_key_values"}
    used = {name for name, value in captured.items() if value is not None}
    assert used <= known, f"new arguments of the text model: {sorted(used - known)}"
    assert captured["inputs_embeds"].shape[:2] == inputs.ids.shape
    deep = captured.get("deepstack_visual_embeds")
    assert (deep is not None) == (adapter.checkpoint.config.model_type == "qwen3_vl")


def test_deepstack_is_taken_by_the_names_we_use(adapter: Any) -> None:
    parameters = inspect.signature(adapter.model.model.language_model.forward).parameters
    takes = {"visual_pos_masks", "deepstack_visual_embeds"} <= set(parameters)
    assert takes == (adapter.checkpoint.config.model_type == "qwen3_vl")


def test_generate_goes_on_behind_the_last_position(adapter: Any) -> None:
    """It extends the position ids that it is given: the first new token follows the last one."""
    seen: list[torch.Tensor] = []
    text = adapter.model.model.language_model
    handle = text.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["position_ids"]), with_kwargs=True
    )
    inputs = adapter.prepare(frames_for(adapter, 4), 2.0)
    prefix = adapter.encode(inputs, "reference")
    seen.clear()
    shifted = prefix.position_ids + 3
    try:
        adapter.model.generate(
            **adapter.arguments(inputs.ids, inputs),
            position_ids=shifted,
            attention_mask=torch.ones_like(inputs.ids),
            max_new_tokens=3,
            eos_token_id=None,
            pad_token_id=0,
        )
    finally:
        handle.remove()
    last = shifted[..., -1:]
    assert len(seen) == 3
    for step, positions in enumerate(seen[1:], start=1):
        assert torch.equal(positions[-last.shape[0] :], last + step)


@pytest.mark.parametrize("family", BUILDERS)
def test_save_pretrained_writes_the_files_that_we_read(family: str, tmp_path: Path) -> None:
    write_family(tmp_path, family)
    names = {path.name for path in tmp_path.iterdir()}
    needed = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}
    assert needed | {"processor_config.json", "chat_template.jinja"} <= names
