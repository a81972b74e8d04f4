"""What a drafting model has to compute: kept tokens the same for every method, no row twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engine.runs import Run
from tests.tiny import random_frames
from vidcap.engine.decoder import Decoder
from vidcap.engine.draft import (
    Drafter,
    DynamicDrafter,
    DynamicSettings,
    Lookup,
    PairDrafter,
    Proposal,
    SelfSource,
    WithLookup,
)
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.prune import budget, select_top, select_two_stage
from vidcap.engine.prune.pruner import Pruner
from vidcap.engine.tree import STATIC_TREE, TreeShape
from vidcap.engine.verify import Accepted
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.settings import SpeculationSettings, method_settings

QUESTION = "What moves?"
DRAFTERS: dict[str, Callable[[Decoder, LogitsStack], Drafter]] = {
    "chain": lambda decoder, stack: PairDrafter(decoder, TreeShape.chain(4), stack),
    "static": lambda decoder, stack: PairDrafter(decoder, STATIC_TREE, stack),
    "dynamic": lambda decoder, stack: DynamicDrafter(decoder, DynamicSettings(12, 4, 3), stack),
    "branch": lambda decoder, stack: WithLookup(
        PairDrafter(decoder, STATIC_TREE, stack), Lookup([90, 70, 71, 72], {3}), 3
    ),
}
#: Ways to prune by UV-Prune: sequential, in one pass beside the target, for another model and none.
BY_UV = {
    "sd": method_settings("sd", prune=0.3, prune_by="uv"),
    "specvlm": method_settings("specvlm", prune=0.3, prune_by="uv"),
    "self": method_settings("self", prune=0.3, prune_by="uv"),
    "auto": method_settings("auto", prune=0.3, prune_by="uv"),
    "parallelvlm": method_settings("parallelvlm", prune=0.3),
    "beside": method_settings("sd-tree", prune=0.3, prune_by="uv", prefill="parallel"),
    "chunks": method_settings("parallelvlm", prune=0.3, prefill_chunk=16),
}


@pytest.fixture(scope="module")
def run(tiny_target: Path, tiny_draft: Path) -> Run:
    cpu = torch.device("cpu")
    models = [load_model(folder, cpu, torch.float32) for folder in (tiny_target, tiny_draft)]
    inputs = models[0].prepare(random_frames(8, 56, 112), fps=2.0)
    return Run(*models, inputs, max_tokens=8)


def kept_by(
    run: Run, method: SpeculationSettings, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[int], torch.Tensor]:
    """Visual tokens that a method leaves its draft, and the scores that they come from."""
    found: list[Any] = []

    def keep(pruner: Pruner, prefix: Any, probes: Any) -> torch.Tensor | None:
        kept = original(pruner, prefix, probes)
        found.append((kept.tolist(), pruner._scorer.score(probes)[0]))
        return kept

    original = Pruner.keep
    with monkeypatch.context() as patch:
        patch.setattr(Pruner, "keep", keep)
        run.ask(QUESTION, method)
    return found[0]


def test_uv_prune_keeps_the_same_tokens_in_every_method(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    picks = budget(run.inputs.visual_tokens, 0.3)
    for name, method in BY_UV.items():
        kept, scores = kept_by(run, method, monkeypatch)
        assert kept == select_top(scores, picks).tolist(), name
        assert kept == kept_by(run, BY_UV["sd"], monkeypatch)[0], name


def test_each_score_comes_with_its_published_selection(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    picks = budget(run.inputs.visual_tokens, 0.3)
    attention = method_settings("parallelvlm", prune=0.3, prune_by="attention")
    kept, scores = kept_by(run, attention, monkeypatch)
    assert kept == select_two_stage(scores, picks, 0.4).tolist()
    assert kept != select_top(scores, picks).tolist()
    staged = method_settings("sd", prune=0.3, prune_by="uv", prune_select="two-stage")
    kept, scores = kept_by(run, staged, monkeypatch)
    assert kept == select_two_stage(scores - scores.min(), picks, 0.4).tolist()


def test_uv_prune_may_start_later_and_compare_with_all_text(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same scores in one pass beside the target, in two passes, and in pieces."""
    ways = (("sd", {}), ("parallelvlm", {}), ("parallelvlm", {"prefill_chunk": 16}))
    for parts in ({"uv_text": "prompt"}, {"uv_layer": 2, "uv_base": 1}):
        methods = [
            method_settings(name, prune=0.3, prune_by="uv", **parts, **more) for name, more in ways
        ]
        found = [kept_by(run, method, monkeypatch)[1] for method in methods]
        for scores in found[1:]:
            torch.testing.assert_close(scores, found[0], atol=1e-5, rtol=1e-5)
        plain = kept_by(run, BY_UV["sd"], monkeypatch)[1]
        assert not torch.allclose(found[0], plain, atol=1e-3)


@torch.inference_mode()
def test_a_target_that_drafts_for_itself_gathers_rows_and_computes_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt, suffix = run.prefill(), run.target.suffix_ids(QUESTION)
    target = prompt.target.fork(100)
    target.append(suffix)
    kept = torch.tensor([1, 4, 9])

    def fail(*_: object) -> None:
        raise AssertionError("a forward pass")

    with monkeypatch.context() as patch:
        patch.setattr(run.target.language, "forward", fail)
        draft = SelfSource().decoder(suffix, kept, compact=False, rows=100, target=target)
    columns = target.prefix.columns_of(kept)
    for ours, theirs in zip(draft.kv.prefix, target.kv.prefix, strict=True):
        assert all(torch.equal(a, b[:, :, columns]) for a, b in zip(ours, theirs, strict=True))
    assert draft.kv.length == target.kv.length == suffix.shape[1]
    for layer in range(target.kv.spec.layers):
        assert torch.equal(
            draft.kv.tail(layer)[..., : draft.kv.length, :],
            target.kv.tail(layer)[..., : target.kv.length, :],
        )
    assert draft.prefix.suffix_start == target.prefix.suffix_start


@torch.inference_mode()
@pytest.mark.parametrize("name", DRAFTERS)
def test_rows_of_accepted_drafts_are_not_computed_again(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round feeds the newest token, and the last accepted one where it was a leaf: no more."""
    model: Qwen25VL = run.target
    suffix = model.suffix_ids(QUESTION)
    prefix = run.prefill().target.prefix
    stack = LogitsStack(LogitsSettings(model.rules.vocab_size), torch.cat([prefix.ids, suffix], 1))
    decoder = run.prefill().target.fork(200)
    decoder.append(suffix)
    drafter = DRAFTERS[name](decoder, stack)
    fed: list[int] = []
    append = decoder.append
    monkeypatch.setattr(decoder, "append", lambda ids: fed.append(ids.shape[1]) or append(ids))
    for stop in (0, 1, 0, 1):
        proposal = drafter.propose(torch.tensor([[90]]))
        path = deepest(proposal)
        nodes = path[: len(path) - stop]
        tokens = (*proposal.tree.tokens[0, list(nodes[1:])].tolist(), 90)
        drafter.commit(proposal, Accepted(nodes, tokens))
    drafter.propose(torch.tensor([[90]]))
    assert fed[::2] == [1, 1, 1]
    # A dynamic tree has run some of its leaves as well.
    assert fed[1::2] == [2, 2] or (name == "dynamic" and max(fed) <= 2)


def deepest(proposal: Proposal) -> tuple[int, ...]:
    """Nodes of the longest path that the model itself has drafted."""
    count = proposal.chosen_from or proposal.tree.size
    last = int(proposal.tree.depths[0, :count].argmax())
    return tuple(proposal.tree.mask[0, last].nonzero().flatten().tolist())
