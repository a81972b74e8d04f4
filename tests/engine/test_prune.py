"""Scores against their definitions, selections against their budgets."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from tests.tiny import full_prompt, random_frames
from vidcap.engine.decoder import Decoder
from vidcap.engine.probe import Needs, Probe
from vidcap.engine.prune import (
    AttentionScorer,
    UVScorer,
    budget,
    make_scorer,
    select_stratified,
    select_top,
    select_two_stage,
    select_uniform,
)
from vidcap.engine.prune.score import PrefillProbes, uv_layer
from vidcap.errors import UsageError
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.settings import method_settings

counts = st.integers(0, 200)
drops = st.floats(0, 1)


@pytest.fixture(scope="module")
def target(tiny_target: Path) -> Qwen25VL:
    return load_model(tiny_target, torch.device("cpu"), torch.float32)


@torch.inference_mode()
def prefill_probes(
    target: Qwen25VL, prefix_needs: Needs, suffix_needs: Needs
) -> tuple[PrefillProbes, torch.Tensor]:
    prefix = target.encode(target.prepare(random_frames(6), 2.0), "reference")
    suffix = target.suffix_ids("What moves?")
    probes = [Probe(needs, prefix.visual_index) for needs in (prefix_needs, suffix_needs)]
    decoder = Decoder.prefill(target.language, prefix, probes[0]).fork(64)
    decoder.append(suffix, probes[1])
    return PrefillProbes(*probes), suffix


@torch.inference_mode()
def eager_outputs(target: Qwen25VL, suffix: torch.Tensor):  # type: ignore[no-untyped-def]
    """transformers' own attentions and hidden states for the whole prompt."""
    prefix = target.encode(target.prepare(random_frames(6), 2.0), "reference")
    _, positions = full_prompt(prefix, suffix)
    embeds = torch.cat([prefix.embeds, target.language.embed(suffix)], dim=1)
    target.model.set_attn_implementation({"text_config": "eager"})
    try:
        return prefix, target.model.model.language_model(
            inputs_embeds=embeds,
            position_ids=positions,
            output_attentions=True,
            output_hidden_states=True,
            use_cache=False,
        )
    finally:
        target.model.set_attn_implementation({"text_config": "vidcap_split"})


def test_attention_scores_equal_eager_attention(target: Qwen25VL) -> None:
    probes, suffix = prefill_probes(target, Needs(), AttentionScorer.suffix_needs)
    prefix, eager = eager_outputs(target, suffix)
    rows = suffix.shape[1]
    stacked = torch.stack(eager.attentions)[..., -rows:, :]
    expected = stacked.mean((0, 2, 3))[:, prefix.visual_index]
    scores = AttentionScorer().score(probes)
    torch.testing.assert_close(scores, expected, atol=1e-7, rtol=1e-4)


@pytest.mark.parametrize(
    ("layer", "base", "whole"), [(1, 0, False), (2, 0, False), (2, 1, False), (2, 0, True)]
)
def test_uv_scores_equal_the_double_sum(
    target: Qwen25VL, layer: int, base: int, whole: bool
) -> None:
    scorer = UVScorer(layer, base, whole_prompt=whole)
    probes, suffix = prefill_probes(target, scorer.prefix_needs, scorer.suffix_needs)
    prefix, eager = eager_outputs(target, suffix)
    columns = set(range(prefix.length if not whole else 0, prefix.length + suffix.shape[1]))
    columns -= set(prefix.visual_index.tolist())
    expected = torch.zeros(len(prefix.visual_index))
    for upper in range(base + 1, layer + 1):
        for states, sign in ((eager.hidden_states[upper], 1), (eager.hidden_states[upper - 1], -1)):
            visual, text = states[0, prefix.visual_index], states[0, sorted(columns)]
            for row in text:
                expected += sign * torch.nn.functional.cosine_similarity(visual, row[None], dim=-1)
    torch.testing.assert_close(scorer.score(probes)[0], expected, atol=1e-5, rtol=1e-5)


class _Largest(TorchDispatchMode):
    """Notes how many numbers the largest new tensor has."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.size = max(self.size, result.numel())
        return result


@torch.no_grad()
def test_attention_scores_need_the_rows_of_one_head_at_a_time() -> None:
    heads, rows, keys, dim = 8, 6, 500, 4
    probe = Probe(AttentionScorer.suffix_needs, torch.arange(3, 403))
    query, key = torch.randn(1, heads, rows, dim), torch.randn(1, heads, keys, dim)
    lse = torch.logsumexp(query @ key.transpose(-1, -2), dim=-1)
    with _Largest() as largest:
        probe.add_attention(query, key, 1.0, lse)
    assert largest.size <= rows * keys
    expected = (query @ key.transpose(-1, -2)).softmax(-1).mean((1, 2))[:, 3:403]
    torch.testing.assert_close(probe.mean_attention(), expected)


def test_nothing_is_collected_that_nobody_asked_for(target: Qwen25VL) -> None:
    probes, _ = prefill_probes(target, Needs(), Needs())
    assert probes.suffix.layer_inputs == {}
    with pytest.raises(ValueError, match="no attention"):
        probes.suffix.mean_attention()


def test_uv_layer_is_a_quarter_of_the_depth() -> None:
    assert [uv_layer(layers) for layers in (28, 64, 80, 12, 1)] == [7, 16, 20, 3, 1]


def test_budgets_are_exact_where_floating_point_is_not() -> None:
    assert budget(1000, 0.9) == 100
    assert budget(10, 0.7) == 3
    assert budget(25088, 0.9) == 2508
    assert budget(77, 0.0) == 77
    assert budget(77, 1.0) == 0


@settings(max_examples=150, deadline=None)
@given(counts, drops, st.floats(0, 1), st.integers(0, 1000))
def test_every_selection_fills_its_budget_with_sorted_unique_tokens(
    count: int, drop: float, mass: float, seed: int
) -> None:
    scores = torch.rand(count, generator=torch.Generator().manual_seed(seed))
    picks = budget(count, drop)
    grid = (count, 1, 1)
    for kept in (
        select_uniform(count, picks),
        select_top(scores, picks),
        select_two_stage(scores, picks, mass),
        select_stratified(scores, picks, grid, mass),
    ):
        assert len(kept) == picks
        assert kept.tolist() == sorted(set(kept.tolist()))
        assert all(0 <= index < count for index in kept.tolist())


@given(st.integers(1, 60), st.integers(0, 100))
def test_dropping_nothing_is_the_identity(count: int, seed: int) -> None:
    scores = torch.rand(count, generator=torch.Generator().manual_seed(seed))
    everything = list(range(count))
    assert select_two_stage(scores, count, 0.4).tolist() == everything
    assert select_stratified(scores, count, (1, 1, count), 0.4).tolist() == everything


def two_stages(scores: list[int], picks: int, mass: float) -> tuple[int, list[int]]:
    """SpecVLM's selection with plain loops: how many the first stage takes, and all that stay."""
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    sizes = range(1, len(scores) + 1)
    wanted = [size for size in sizes if sum(sorted(scores)[-size:]) >= mass * sum(scores)]
    first = min(picks, wanted[0]) if mass > 0 else 0
    rest = sorted(order[first:])
    left = picks - first
    even = [rest[turn * (len(rest) - 1) // max(1, left - 1)] for turn in range(left)]
    return first, sorted([*order[:first], *even])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.floats(0, 1), st.data())
def test_two_stages_equal_plain_loops(scores: list[int], drop: float, data: st.DataObject) -> None:
    """With whole numbers and eighths, so that sums are exact and ties happen."""
    picks, firsts = budget(len(scores), drop), []
    for mass in sorted(data.draw(st.lists(st.integers(0, 8), min_size=2, max_size=3))):
        first, kept = two_stages(scores, picks, mass / 8)
        tensor = torch.tensor(scores, dtype=torch.float32)
        assert select_two_stage(tensor, picks, mass / 8).tolist() == kept
        firsts.append(first)
    assert firsts == sorted(firsts)


def test_stage_two_is_even_over_the_rest() -> None:
    scores = torch.zeros(11)
    scores[5] = 1.0
    assert select_two_stage(scores, 5, 0.4).tolist() == [0, 3, 5, 7, 10]


def test_stratification_takes_the_best_token_of_every_cell() -> None:
    """Four frames of 8 x 8 in cells of 2 x 2; two picks are the first stage's."""
    scores = torch.rand(4 * 64, generator=torch.Generator().manual_seed(3)) / 100
    scores[100], scores[101] = 9.0, 8.0
    kept = select_stratified(scores, 64 + 2, (4, 8, 8), mass=0.85).tolist()
    assert {100, 101} < set(kept)
    free = scores.clone()
    free[[100, 101]] = -1
    best = free.view(4, 4, 2, 4, 2).amax((2, 4)).flatten().tolist()
    assert {float(scores[index]) for index in kept} - {9.0, 8.0} == set(best)


def test_stratification_reaches_every_frame() -> None:
    scores = torch.zeros(8 * 4 * 4)
    scores[:16] = torch.linspace(1, 2, 16)
    kept = select_stratified(scores, 16, (8, 4, 4), mass=0.2)
    frames = {index // 16 for index in kept.tolist()}
    assert frames == set(range(8))
    with pytest.raises(ValueError, match="grid"):
        select_stratified(scores, 4, (2, 2, 2), 0.2)


@torch.inference_mode()
@pytest.mark.parametrize("drop", [0.3, 0.9, 1.0])
def test_a_pruned_prefix_equals_the_full_one_with_dropped_columns_masked(
    target: Qwen25VL, drop: float
) -> None:
    prefix = target.encode(target.prepare(random_frames(8), 2.0), "reference")
    suffix = target.suffix_ids("What moves?")
    count = len(prefix.visual_index)
    kept = torch.randperm(count, generator=torch.Generator().manual_seed(1))[: budget(count, drop)]
    kept = kept.sort().values
    decoder = Decoder.prefill(target.language, prefix.keep(kept, compact=False)).fork(64)
    ours = target.language.logits(decoder.append(suffix))

    ids, positions = full_prompt(prefix, suffix)
    visible = torch.ones(ids.shape[1], dtype=torch.bool)
    visible[prefix.visual_index] = False
    visible[prefix.visual_index[kept]] = True
    causal = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
    mask = causal & visible | torch.eye(ids.shape[1], dtype=torch.bool)
    embeds = torch.cat([prefix.embeds, target.language.embed(suffix)], dim=1)
    target.model.set_attn_implementation({"text_config": "sdpa"})
    try:
        hidden = target.model.model.language_model(
            inputs_embeds=embeds,
            position_ids=positions,
            attention_mask=mask[None, None],
            use_cache=False,
        ).last_hidden_state
    finally:
        target.model.set_attn_implementation({"text_config": "vidcap_split"})
    expected = target.model.lm_head(hidden[:, -suffix.shape[1] :])
    torch.testing.assert_close(ours, expected, atol=2e-4, rtol=1e-4)


def test_compact_positions_leave_no_gap(target: Qwen25VL) -> None:
    prefix = target.encode(target.prepare(random_frames(8), 2.0), "reference")
    kept = torch.tensor([0, 5, 17])
    pruned = prefix.keep(kept, compact=True)
    text = prefix.length - len(prefix.visual_index)
    assert pruned.length == text + 3
    assert pruned.position_ids.tolist() == [[list(range(text + 3))]] * 3
    assert pruned.suffix_start == text + 3
    assert torch.equal(
        pruned.embeds[:, pruned.visual_index], prefix.embeds[:, prefix.visual_index[kept]]
    )


@pytest.mark.parametrize(
    ("parts", "layers", "words"),
    [
        ({"uv_layer": 3}, 3, "uv-layer 3 is none of the target's layers 1 to 2"),
        ({}, 1, "uv-layer 1"),
        ({"uv_base": 2}, 6, "uv-base 2 is not below uv-layer 2"),
    ],
)
def test_layers_that_the_target_does_not_have_are_usage_errors(
    parts: dict[str, int], layers: int, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        make_scorer(method_settings("parallelvlm", **parts), layers)
