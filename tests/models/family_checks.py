"""What must hold for the adapter of every family, against the released processor and model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.engine.runs import Run
from tests.models.families import DRAFT, TARGET, processor_prompt, write_family
from tests.tiny import fresh_logits, random_frames
from vidcap.bench.baseline import Assistance, full_prompt, transformers_generate
from vidcap.engine.decoder import Decoder
from vidcap.engine.logits import LogitsSettings
from vidcap.engine.loop import Limits
from vidcap.engine.model import EncodedPrefix
from vidcap.models.loading import load_model, load_pair_folders
from vidcap.models.pair import find_pair
from vidcap.settings import METHODS, ModelSettings, PositionPolicy, method_settings

QUESTIONS = ("What moves?", "Describe the red circle.")
STRICT = {name: method for name, method in METHODS.items() if method.verify == "strict"}
PRUNINGS = [
    {"prune": 0.8, "prune_by": "attention"},
    {"prune": 0.5, "prune_by": "attention", "prune_select": "stratified"},
    {"prune": 0.9, "prune_by": "uv"},
    {"prune": 0.7, "prune_by": "uniform", "kept_positions": "compact"},
    {"prune": 1.0},
]
TOKENS = 20


def load_family(folder: Path, family: str) -> dict[str, Any]:
    """A target, the same with noise, and a smaller draft, through the command line's own path."""
    near = write_family(folder / "near", family, noise_seed=5)
    write_family(folder / "target", family, TARGET, shard_size="100KB")
    write_family(folder / "draft", family, DRAFT, seed=2)
    settings = ModelSettings(
        pair=f"{folder / 'target'}+{folder / 'draft'}", device="cpu", dtype="float32", threads=1
    )
    pair = load_pair_folders(find_pair(settings, needs_draft=True), settings)
    assert (folder / "target" / "model.safetensors.index.json").is_file()
    near_model = load_model(near, torch.device("cpu"), torch.float32)
    return {"target": pair.target, "draft": pair.draft, "near": near_model, "folder": folder}


def frames_for(adapter: Any, count: int) -> Any:
    height, width = adapter.checkpoint.geometry.frame_size(count, 96, 128)
    return random_frames(count, height, width, seed=count)


def make_run(models: dict[str, Any], count: int, draft: str = "near", **parts: Any) -> Run:
    target = models["target"]
    inputs = target.prepare(frames_for(target, count), fps=2.0)
    return Run(target, models[draft], inputs, max_tokens=TOKENS, **parts)


def check_prompt(adapter: Any, count: int) -> None:
    """Prefix and question are the processor's prompt, pixels and all."""
    rgb = frames_for(adapter, count)
    inputs = adapter.prepare(rgb, fps=2.0)
    expected = processor_prompt(adapter, rgb, 2.0, QUESTIONS[0])
    ids = torch.cat([inputs.ids, adapter.suffix_ids(QUESTIONS[0])], dim=1)
    assert ids.tolist() == expected["input_ids"].tolist()
    for name in adapter.tensor_names:
        torch.testing.assert_close(inputs.tensors[name], torch.as_tensor(expected[name]))
    geometry, (height, width) = adapter.checkpoint.geometry, rgb.shape[1:3]
    assert inputs.visual_tokens == geometry.visual_tokens(count, height, width)


def check_logits(models: dict[str, Any], count: int) -> EncodedPrefix:
    """Prefill and question give the logits of the released model, loaded by transformers alone.

    Covers visual features, their places, positions and deepstack at once.
    """
    from transformers import AutoModelForImageTextToText

    adapter = models["target"]
    released = AutoModelForImageTextToText.from_pretrained(
        models["folder"] / "target", dtype=torch.float32
    )
    inputs = adapter.prepare(frames_for(adapter, count), fps=2.0)
    suffix = adapter.suffix_ids(QUESTIONS[0])
    prefix: EncodedPrefix = adapter.encode(inputs, "transformers")
    ids = torch.cat([inputs.ids, suffix], dim=1)
    with torch.no_grad():
        expected = released(**adapter.arguments(ids, inputs)).logits[0, inputs.ids.shape[1] :]
    ours = fresh_logits(adapter.language, prefix, suffix[0].tolist())
    torch.testing.assert_close(ours, expected, atol=5e-4, rtol=1e-3)
    return prefix


@torch.inference_mode()
def check_kept(adapter: Any, kept: list[int]) -> None:
    """A pruned prefix equals the full one with the dropped columns masked; -1 is the last one."""
    prefix = adapter.encode(adapter.prepare(frames_for(adapter, 6), 2.0), "reference")
    suffix = adapter.suffix_ids(QUESTIONS[0])
    chosen = torch.arange(len(prefix.visual_index))[kept]
    decoder = Decoder.prefill(adapter.language, prefix.keep(chosen, compact=False)).fork(64)
    ours = adapter.language.logits(decoder.append(suffix))
    expected = _masked_logits(adapter, prefix, suffix, chosen)
    torch.testing.assert_close(ours, expected, atol=5e-4, rtol=1e-3)


def _masked_logits(adapter: Any, prefix: EncodedPrefix, suffix: Tensor, kept: Tensor) -> Tensor:
    ids, positions = full_prompt(prefix, suffix)
    length = ids.shape[1]
    visible = torch.ones(length, dtype=torch.bool)
    visible[prefix.visual_index] = False
    visible[prefix.visual_index[kept]] = True
    mask = torch.ones(length, length, dtype=torch.bool).tril() & visible
    mask |= torch.eye(length, dtype=torch.bool)
    extra = {}
    if prefix.deepstack:
        rows = torch.zeros(1, length, dtype=torch.bool)
        rows[:, prefix.visual_index] = True
        features = [item[0] for item in prefix.deepstack]
        extra = {"visual_pos_masks": rows, "deepstack_visual_embeds": features}
    adapter.model.set_attn_implementation({"text_config": "sdpa"})
    try:
        hidden = adapter.model.model.language_model(
            inputs_embeds=torch.cat([prefix.embeds, adapter.language.embed(suffix)], dim=1),
            position_ids=positions,
            attention_mask=mask[None, None],
            use_cache=False,
            **extra,
        ).last_hidden_state
    finally:
        adapter.model.set_attn_implementation({"text_config": "vidcap_split"})
    logits: Tensor = adapter.model.lm_head(hidden[:, -suffix.shape[1] :])
    return logits


def check_methods(models: dict[str, Any], count: int, positions: PositionPolicy) -> None:
    """Every strict preset gives the tokens of ``generate``; two of them with a far draft, too."""
    for question in QUESTIONS:
        run = make_run(models, count, positions=positions)
        expected = run.transformers(question)
        assert len(set(expected)) > TOKENS // 3, "too monotonous to show anything"
        for name, method in STRICT.items():
            assert run.ask(question, method)[0] == expected, (question, name)
        run.draft = models["draft"]
        for name in ("sd-tree", "specvlm"):
            assert run.ask(question, STRICT[name])[0] == expected, (question, name)


def check_beside(models: dict[str, Any]) -> None:
    """The draft prefilled beside the target, scores from one pass over video and question."""
    run = make_run(models, 6)
    expected = run.transformers(QUESTIONS[0])
    for method in (STRICT["parallelvlm"], method_settings("sd-tree", prefill="parallel")):
        _, generation = run.start_parallel(QUESTIONS[0], method)
        assert [token for new in generation for token in new] == expected, method


def check_chunks(models: dict[str, Any]) -> None:
    """Prefills in pieces of both models change no token."""
    run = make_run(models, 6)
    expected = run.transformers(QUESTIONS[0])
    for method in ("sd", "parallelvlm"):
        pieces = method_settings(method, prefill_chunk=10)
        assert run.ask(QUESTIONS[0], pieces)[0] == expected, method


@torch.inference_mode()
def check_assisted(models: dict[str, Any]) -> None:
    """``generate`` with a draft or a look-up of its own gives what it gives alone."""
    target = models["target"]
    inputs = target.prepare(frames_for(target, 6), fps=2.0)
    prompt = full_prompt(target.encode(inputs, "reference"), target.suffix_ids(QUESTIONS[0]))
    logits = LogitsSettings(target.rules.vocab_size, target.rules.placeholder_ids)
    alone, assisted, lookup = (
        transformers_generate(
            target, inputs, *prompt, Limits(TOKENS, frozenset()), logits, assistance=assistance
        )
        for assistance in (None, Assistance(models["near"]), Assistance(lookup_tokens=10))
    )
    assert assisted.tokens == lookup.tokens == alone.tokens
    assert assisted.draft_calls >= assisted.drafted > 0


def check_pruning(models: dict[str, Any], pruning: dict[str, Any]) -> None:
    """Drafts on fewer visual tokens change no token, and see as many as they should."""
    run = make_run(models, 6)
    expected = run.transformers(QUESTIONS[0])
    tokens, stats = run.ask(QUESTIONS[0], method_settings("sd-tree", **pruning))
    assert tokens == expected
    assert stats.draft_visual == int(run.inputs.visual_tokens * (1 - pruning["prune"]) + 1e-9)
    own = {name: value for name, value in pruning.items() if name != "kept_positions"}
    assert run.ask(QUESTIONS[0], method_settings("self", **own))[0] == expected
