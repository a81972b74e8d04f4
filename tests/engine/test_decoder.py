"""Trees, commits and rollbacks against a fresh forward pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from tests.tiny import fresh_logits, random_frames
from vidcap.engine.decoder import Decoder, TargetDecoder
from vidcap.engine.kv import KVCache, KVSpec
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.tree import STATIC_TREE, TreeShape
from vidcap.engine.verify import Accepted, StrictGreedy
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.settings import PositionPolicy

QUESTION = [70, 71, 72, 73, 74]
SHAPES = {"chain": TreeShape.chain(6), "static": STATIC_TREE}
#: Two siblings and a child of the second.
MASK = torch.tensor([[[True, False, False], [False, True, False], [False, True, True]]])


@pytest.fixture(scope="module")
def target(tiny_target: Path) -> Qwen25VL:
    return load_model(tiny_target, torch.device("cpu"), torch.float32)


def tree_tokens(shape: TreeShape, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(20, 250, (1, shape.size), generator=generator)


def node_path(shape: TreeShape, node: int) -> list[int]:
    path = []
    while node >= 0:
        path.append(node)
        node = shape.parents[node]
    return path[::-1]


@pytest.mark.parametrize("frames", [4, 24])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@torch.inference_mode()
def test_every_node_equals_a_fresh_forward_of_its_path(
    target: Qwen25VL, shape: TreeShape, frames: int
) -> None:
    prefix = target.encode(target.prepare(random_frames(frames), 2.0), "reference")
    decoder = Decoder.prefill(target.language, prefix).fork(200)
    decoder.append(torch.tensor([QUESTION]))
    model = TargetDecoder(decoder)
    committed: list[int] = []
    for round_seed in range(2):
        tokens = tree_tokens(shape, round_seed)
        logits = model.verify(shape.with_tokens(tokens)).logits[0]
        for node in range(shape.size):
            path = tokens[0, node_path(shape, node)].tolist()
            fresh = fresh_logits(target.language, prefix, QUESTION + committed + path)[-1]
            torch.testing.assert_close(logits[node], fresh, atol=2e-4, rtol=1e-4)
        deepest = node_path(shape, shape.size - 1)
        model.commit(Accepted(tuple(deepest), ()))
        committed += tokens[0, deepest].tolist()


@torch.inference_mode()
def test_a_chain_needs_no_mask(target: Qwen25VL) -> None:
    prefix = target.encode(target.prepare(random_frames(4), 2.0), "reference")
    base, states = Decoder.prefill(target.language, prefix), []
    for masked in (True, False):
        decoder = base.fork(100)
        decoder.append(torch.tensor([QUESTION]))
        for depth, token in enumerate((80, 81, 82)):
            mask = torch.ones(1, 1, depth + 1, dtype=torch.bool) if masked else None
            hidden = decoder.run(torch.tensor([[token]]), torch.tensor([[depth]]), mask, depth)
        states.append(hidden)
    torch.testing.assert_close(*states, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_draft_rows_written_level_by_level_equal_a_fresh_forward(target: Qwen25VL) -> None:
    prefix = target.encode(target.prepare(random_frames(4), 2.0), "reference")
    decoder = Decoder.prefill(target.language, prefix).fork(100)
    decoder.append(torch.tensor([QUESTION]))
    # Two siblings, then a child of the second one, then commit only that branch.
    mask = torch.eye(2, dtype=torch.bool)[None]
    decoder.run(torch.tensor([[80, 81]]), torch.tensor([[0, 0]]), mask)
    child = torch.tensor([[[False, True, True]]])
    hidden = decoder.run(torch.tensor([[82]]), torch.tensor([[1]]), child, offset=2)
    expected = fresh_logits(target.language, prefix, [*QUESTION, 81, 82])[-1]
    torch.testing.assert_close(target.language.logits(hidden)[0, 0], expected, atol=2e-4, rtol=1e-4)
    decoder.commit([1, 2])
    logits = target.language.logits(decoder.append(torch.tensor([[83]])))[0, 0]
    expected = fresh_logits(target.language, prefix, [*QUESTION, 81, 82, 83])[-1]
    torch.testing.assert_close(logits, expected, atol=2e-4, rtol=1e-4)


@torch.inference_mode()
def test_forks_do_not_see_each_other(target: Qwen25VL) -> None:
    prefix = target.encode(target.prepare(random_frames(4), 2.0), "reference")
    base = Decoder.prefill(target.language, prefix)
    one, two = base.fork(64), base.fork(64)
    one.append(torch.tensor([[90, 91, 92]]))
    logits = target.language.logits(two.append(torch.tensor([QUESTION])))[0]
    expected = fresh_logits(target.language, prefix, QUESTION)
    torch.testing.assert_close(logits, expected, atol=2e-4, rtol=1e-4)
    assert one.kv.prefix is two.kv.prefix


class _NoReads(TorchDispatchMode):
    """Fails on operations that bring data to the host or make shapes depend on data."""

    FORBIDDEN = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "is_nonzero")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.name().partition("::")[2].partition(".")[0]
        if name in self.FORBIDDEN:
            raise AssertionError(f"{name} in a verify step")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("penalty", [1.0, 1.1])
@torch.no_grad()  # in inference mode the dispatcher does not show reads
def test_a_verify_step_never_reads_from_the_device(target: Qwen25VL, penalty: float) -> None:
    prefix = target.encode(target.prepare(random_frames(4), 2.0), "reference")
    question = torch.tensor([QUESTION])
    decoder = Decoder.prefill(target.language, prefix).fork(100)
    decoder.append(question)
    model = TargetDecoder(decoder)
    settings = LogitsSettings(target.rules.vocab_size, target.rules.placeholder_ids, penalty)
    stack = LogitsStack(settings, question)
    tree = STATIC_TREE.with_tokens(tree_tokens(STATIC_TREE))
    with _NoReads():
        scores = stack.process(model.verify(tree).logits, tree.tokens, tree.mask)
        verdict = StrictGreedy().verdict(tree, scores)
    with pytest.raises(AssertionError, match="_local_scalar_dense"), _NoReads():
        verdict.count[0].item()


def test_the_tail_refuses_more_rows_than_it_holds() -> None:
    kv = KVCache(KVSpec(1, 1, 1, 4, torch.float32, torch.device("cpu")), 1, 10)
    assert kv.capacity == 64
    kv.append_committed(64)
    with pytest.raises(ValueError, match="full"):
        kv.append_committed(1)


def test_commit_gathers_rows_and_keeps_zeros_behind() -> None:
    spec = KVSpec(2, 1, 1, 4, torch.float32, torch.device("cpu"))
    kv = KVCache(spec, 1, 10)
    for layer in range(2):
        rows = torch.arange(1.0, 7.0)[None, None, :, None].expand(1, 1, 6, 4) + 10 * layer
        kv.write(layer, 0, rows, -rows)
    kv.append_committed(2)
    kv.commit([0, 2, 3])
    assert kv.length == 5
    assert kv.tail(0)[0, 0, 0, :5, 0].tolist() == [1, 2, 3, 5, 6]
    assert kv.tail(1)[1, 0, 0, :5, 0].tolist() == [-11, -12, -13, -15, -16]
    assert kv.tail(0)[0, 0, 0, 6:].abs().sum() == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.sets(st.integers(0, 4))), max_size=8), st.data())
def test_committed_rows_are_those_of_the_accepted_nodes(
    rounds: list[tuple[int, set[int]]], data: st.DataObject
) -> None:
    """Any run of rounds, with rollbacks between them, against a plain list."""
    kv = KVCache(KVSpec(1, 1, 1, 2, torch.float32, torch.device("cpu")), 1, 64)
    kept: list[float] = []
    for number, (count, chosen) in enumerate(rounds):
        values = [100.0 * number + node for node in range(count)]
        rows = torch.tensor(values)[None, None, :, None].expand(1, 1, count, 2)
        kv.write(0, kv.length, rows, -rows)
        accepted = sorted(node for node in chosen if node < count)
        kv.commit(accepted)
        kept += [values[node] for node in accepted]
        assert kv.tail(0)[0, 0, 0, : kv.length, 1].tolist() == kept
        assert kv.tail(0)[1, 0, 0, : kv.length, 0].tolist() == [-value for value in kept]
        length = data.draw(st.integers(max(0, kv.length - 2), kv.length))
        kv.rewind(length)
        del kept[length:]
    with pytest.raises(ValueError, match="committed rows"):
        kv.rewind(kv.length + 1)


@torch.inference_mode()
@pytest.mark.parametrize("policy", ["reference", "transformers"])
def test_positions_of_text_do_not_depend_on_what_the_draft_sees(
    target: Qwen25VL, monkeypatch: pytest.MonkeyPatch, policy: PositionPolicy
) -> None:
    prefix = target.encode(target.prepare(random_frames(24, 56, 112), 2.0), policy)
    visual = len(prefix.visual_index)
    seen: list[torch.Tensor] = []
    forward = target.language.forward

    def spy(embeds, position_ids, step):  # type: ignore[no-untyped-def]
        seen.append(position_ids)
        return forward(embeds, position_ids, step)

    monkeypatch.setattr(target.language, "forward", spy)
    for kept in (torch.arange(visual), torch.arange(0, visual, 7), torch.arange(0)):
        decoder = Decoder.prefill(target.language, prefix.keep(kept, compact=False)).fork(100)
        assert torch.equal(seen[-1], prefix.position_ids[..., prefix.columns_of(kept)])
        decoder.append(torch.tensor([QUESTION]))
        decoder.run(torch.tensor([[80, 81, 82]]), torch.tensor([[0, 0, 1]]), MASK)
        first = prefix.suffix_start + len(QUESTION)
        assert seen[-1].tolist() == [[[first, first, first + 1]]] * 3
    assert prefix.suffix_start == int(seen[-2][0, 0, 0])
