"""Checkpoints in the layouts of the hub give what the same weights give in today's layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.models.families import BUILDERS, DRAFT, TARGET, Size, write_family
from tests.models.family_checks import frames_for
from tests.models.hub_layouts import hub_layout, later_names
from tests.tiny import fresh_logits
from vidcap.models.facts import read_facts
from vidcap.models.loading import load_model


def load(folder: Path) -> Any:
    return load_model(folder, torch.device("cpu"), torch.float32)


@torch.inference_mode()
def answers_alike(new: Path, old: Path) -> tuple[Any, Any]:
    """Both models, once their prompts, positions and logits are known to be the same."""
    ours, theirs = load(new), load(old)
    suffix = ours.suffix_ids("What moves?")
    assert theirs.suffix_ids("What moves?").tolist() == suffix.tolist()
    logits = []
    for model in (ours, theirs):
        prefix = model.encode(model.prepare(frames_for(ours, 4), 2.0), "reference")
        logits.append(fresh_logits(model.language, prefix, suffix[0].tolist()))
        logits.extend((prefix.ids, prefix.embeds, prefix.position_ids, *prefix.deepstack))
    half = len(logits) // 2
    for one, other in zip(logits[:half], logits[half:], strict=True):
        assert torch.equal(one, other)
    return ours, theirs


@pytest.mark.parametrize("size", [TARGET, DRAFT], ids=["untied", "tied"])
@pytest.mark.parametrize("family", BUILDERS)
def test_what_the_hub_has_loads_as_what_is_written_today(
    tmp_path: Path, family: str, size: Size
) -> None:
    new = write_family(tmp_path / "new", family, size)
    old = hub_layout(new, tmp_path / "old")
    ours, theirs = answers_alike(new, old)
    assert theirs.rules == ours.rules
    assert theirs.template == ours.template
    facts, known = read_facts(old), read_facts(new)
    assert (facts.family, facts.layers, facts.kv_heads, facts.head_dim, facts.context) == (
        (family, size.layers, size.kv_heads, 16, known.context)
    )
    assert (facts.hidden, facts.inner, facts.tower) == (known.hidden, known.inner, known.tower)
    assert facts.stop_tokens == known.stop_tokens
    config = json.loads((old / "config.json").read_text())
    assert ("text_config" in config) == (family in ("qwen3_vl", "llava_onevision"))


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "llava_onevision"])
def test_weights_load_under_the_names_of_fine_tuned_models(tmp_path: Path, family: str) -> None:
    new = write_family(tmp_path / "new", family)
    answers_alike(new, later_names(hub_layout(new, tmp_path / "old"), tmp_path / "later"))


def test_the_flat_bounds_of_frames_count(tmp_path: Path) -> None:
    old = hub_layout(write_family(tmp_path / "new", "qwen2_vl"), tmp_path / "old")
    assert load(old).checkpoint.geometry.max_pixels == 200_704
