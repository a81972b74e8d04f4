"""A prefix in parts against the whole prefix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.engine.runs import Run
from tests.tiny import random_frames
from vidcap.engine import attention
from vidcap.engine import kv as kv_module
from vidcap.engine.attention import AttentionStep, split_attention
from vidcap.engine.decoder import Decoder
from vidcap.engine.draft import SelfSource
from vidcap.engine.kernels import attend, attend_reference
from vidcap.engine.kv import KVCache, KVSpec
from vidcap.engine.parts import count_lead, count_parts, cut, joins_tail
from vidcap.engine.probe import Needs, Probe
from vidcap.models.loading import load_model
from vidcap.settings import method_settings

DIM, TAIL, SCALE = 16, 50, 0.3


@pytest.fixture(params=[1, 2, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of parts that were joined."""
    joined: list[int] = []
    merge_parts = attention.merge_parts

    def counted(outs: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        joined.append(len(outs))
        return merge_parts(outs, *others)

    monkeypatch.setattr(attention, "merge_parts", counted)
    return joined


@pytest.fixture(params=["whole prefix before the tail", "some rows before the tail"])
def copied(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether forks have the whole prefix in front of their tail."""
    whole = request.param == "whole prefix before the tail"
    if not whole:
        monkeypatch.setattr(kv_module, "LARGEST_COPIED_BYTES", 0)
    return whole


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def run(
    rows: int,
    prefix: int,
    *,
    forked: bool = False,
    batch: int = 1,
    kv_heads: int = 1,
    group: int = 3,
    dtype: torch.dtype = torch.float32,
    probe: Probe | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Split attention, and the same with one dense mask in float64; [b, heads, rows, d].

    Rows see all committed rows and, of their own pass, themselves and those before.
    """
    heads, total = kv_heads * group, prefix + TAIL
    query = draw(rows, batch, heads, rows, DIM, dtype=dtype)
    key, value = (draw(seed, batch, kv_heads, total, DIM, dtype=dtype) for seed in (1, 2))
    bias = torch.zeros(rows, TAIL)
    later = torch.ones(rows, rows, dtype=torch.bool).triu(1)
    bias[:, TAIL - rows :].masked_fill_(later, -torch.inf)
    kv = KVCache(KVSpec(1, kv_heads, group, DIM, dtype, torch.device("cpu")), batch, TAIL)
    kv.freeze(0, key[:, :, :prefix], value[:, :, :prefix])
    kv = kv.fork(TAIL) if forked else kv
    first = total - rows
    kv.write(0, 0, key[:, :, prefix:first], value[:, :, prefix:first])
    lead = kv.lead_for(rows) if probe is None else 0
    led = torch.nn.functional.pad(bias, (lead, 0))
    mask = led[None, None].repeat(batch, 1, group, 1).to(dtype)
    step = AttentionStep(kv, TAIL - rows, TAIL, lead, mask, probe)
    out, _ = split_attention(
        SimpleNamespace(layer_idx=0),
        query,
        key[:, :, first:],
        value[:, :, first:],
        None,
        scaling=SCALE,
        vidcap=step,
    )
    expected = torch.nn.functional.scaled_dot_product_attention(
        query.double(),
        key.double().repeat_interleave(group, 1),
        value.double().repeat_interleave(group, 1),
        attn_mask=torch.cat([torch.zeros(rows, prefix), bias], dim=1).double(),
        scale=SCALE,
    )
    return out.transpose(1, 2).double(), expected


@pytest.mark.parametrize(
    ("prefix", "forked"), [(130, False), (301, True), (1045, False), (1045, True), (1143, True)]
)
def test_every_number_of_rows_equals_dense_attention(
    prefix: int, forked: bool, threads: int, cuts: list[int], copied: bool
) -> None:
    for rows in range(1, 41):
        out, expected = run(rows, prefix, forked=forked)
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    assert set(cuts) <= set(range(2, threads + 1))
    if not (forked and copied):  # what is in one piece with the tail may be better off whole
        assert bool(cuts) == (threads > 1)


@pytest.mark.parametrize(
    ("batch", "kv_heads", "group"), [(1, 2, 2), (1, 3, 1), (2, 1, 3), (2, 2, 2), (3, 1, 1)]
)
@pytest.mark.parametrize("prefix", [1, 7, 301, 1030])
def test_several_sequences_and_key_heads(
    batch: int, kv_heads: int, group: int, prefix: int, threads: int, copied: bool
) -> None:
    for rows in (1, 2, 11, 26, 33):
        out, expected = run(
            rows, prefix, batch=batch, kv_heads=kv_heads, group=group, forked=rows > 1
        )
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


def test_parts_are_taken_for_several_key_heads_and_sequences(cuts: list[int]) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    run(1, 1030, kv_heads=2, group=2)
    run(1, 1030, batch=2)
    torch.set_num_threads(before)
    assert cuts == [2, 2]


def test_bfloat16_is_close_to_the_reference(threads: int) -> None:
    for rows in range(1, 41):
        out, expected = run(rows, 301, dtype=torch.bfloat16)
        torch.testing.assert_close(out, expected, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("rows", [1, 2, 33, 65])
@pytest.mark.parametrize("masked", [False, True])
def test_a_single_row_in_the_last_block(rows: int, masked: bool) -> None:
    query, key, value = (
        draw(seed, 2, 2, count, 32, dtype=torch.bfloat16)
        for seed, count in ((1, rows), (2, 77), (3, 77))
    )
    bias = None
    if masked:
        bias = torch.zeros(2, 1, rows, 77, dtype=torch.bfloat16)
        bias[:, :, :, 40:].masked_fill_(draw(4, 2, 1, rows, 37) > 0, -torch.inf)
    out, lse = attend(query, key, value, 0.2, bias)
    expected, expected_lse = attend_reference(query, key, value, 0.2, bias)
    assert out.shape == expected.shape
    torch.testing.assert_close(out, expected, atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(lse, expected_lse, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (4, 1)])
@pytest.mark.parametrize(("keys", "parts"), [(12, 3), (13, 3), (14, 3), (1045, 2), (31, 16)])
def test_every_key_is_in_one_part(shape: tuple[int, int], keys: int, parts: int) -> None:
    numbers = torch.arange(float(keys)).view(1, 1, keys, 1).expand(*shape, keys, 2).contiguous()
    made = cut(numbers, numbers + 0.5, parts)
    assert made.key.data_ptr() == numbers.data_ptr()
    seen = torch.ones(made.key.shape[:3], dtype=torch.bool)
    if made.mask is not None:
        seen &= made.mask[:, :, 0] == 0
    parts_at = 0 if shape[0] == 1 else 1
    for at in range(max(shape)):
        rows = made.key.select(1 - parts_at, at)[..., 0]
        assert sorted(rows[seen.select(1 - parts_at, at)].tolist()) == list(range(keys))
    assert torch.equal(made.value, made.key + 0.5)


@pytest.mark.parametrize(
    ("sequences", "kv_heads", "rows", "keys", "threads", "parts"),
    [
        (1, 1, 3, 1045, 1, 1),  # nobody to share with
        (1, 1, 3, 1045, 2, 2),
        (1, 1, 78, 1045, 2, 2),  # three blocks on two threads
        (1, 1, 33, 1045, 2, 2),  # a full block and one that is next to nothing
        (1, 1, 64, 1045, 2, 1),  # two full ones
        (1, 2, 4, 1045, 2, 1),
        (1, 1, 3, 100, 2, 1),  # too short
        (1, 1, 3, 0, 2, 1),
        (2, 2, 3, 9000, 8, 1),  # no view
        (1, 1, 200, 9000, 2, 1),  # many blocks
        (1, 1, 3, 9000, 8, 8),
    ],
)
def test_parts_go_by_blocks_threads_and_length(
    sequences: int, kv_heads: int, rows: int, keys: int, threads: int, parts: int
) -> None:
    assert count_parts(sequences, kv_heads, rows, keys, threads) == parts


@pytest.mark.parametrize(
    ("kv_heads", "rows", "keys", "threads", "joins"),
    [
        (1, 3, 1045, 1, True),
        (1, 3, 1045, 2, True),  # what parts would save is less than what a call more takes
        (1, 3, 4117, 2, False),
        (1, 3, 4117, 1, True),  # nobody to share with
        (1, 33, 1045, 2, True),
        (1, 78, 1045, 2, False),  # three blocks on two threads
        (1, 78, 149, 2, True),
        (2, 4, 4117, 2, True),
        (1, 300, 1045, 2, False),  # the mask would be large
    ],
)
def test_prefix_and_tail_are_one_piece_where_that_is_faster(
    kv_heads: int, rows: int, keys: int, threads: int, joins: bool
) -> None:
    assert joins_tail(1, kv_heads, rows, keys, threads) == joins


@pytest.mark.parametrize(
    ("keys", "lead"), [(0, 0), (7, 0), (511, 0), (512, 0), (530, 18), (1045, 21), (1143, 7)]
)
def test_few_keys_over_go_with_the_tail(keys: int, lead: int) -> None:
    assert count_lead(keys) == lead


@pytest.mark.parametrize("forked", [False, True])
def test_a_probe_sees_the_same_in_parts(forked: bool) -> None:
    columns = torch.arange(3, 530)
    needs = Needs(visual_attention=True, visual_mass=True)
    seen, before = [], torch.get_num_threads()
    for count, fork in ((1, False), (2, forked)):
        torch.set_num_threads(count)
        probe = Probe(needs, columns, text_columns=torch.tensor([0, 1, 2]))
        out, expected = run(5, 530, probe=probe, forked=fork)
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
        seen.append((probe.mean_attention(), probe.mean_mass(5)))
    torch.set_num_threads(before)
    for whole, parted in zip(*seen, strict=True):
        torch.testing.assert_close(whole, parted, atol=1e-6, rtol=1e-4)


def test_the_lead_of_a_fork_is_the_end_of_the_prefix_and_no_part_of_its_tail(copied: bool) -> None:
    spec = KVSpec(2, 2, 1, DIM, torch.float32, torch.device("cpu"))
    kv = KVCache(spec, 1, 4)
    for layer in range(2):
        kv.freeze(layer, draw(layer, 1, 2, 530, DIM), draw(layer + 5, 1, 2, 530, DIM))
    fork = kv.fork(4)
    assert (kv.lead, fork.lead, fork.capacity) == (0, 530 if copied else 18, kv.capacity)
    assert (kv.lead_for(1), fork.lead_for(1)) == (0, fork.lead)
    assert fork.lead_for(1000) == 18
    for layer, pair in enumerate(kv.prefix):
        for lead in {0, 18, fork.lead}:
            led = fork.lead_and_tail(layer, lead, 3)
            assert led.shape == (2, 1, 2, lead + 3, DIM)
            for ours, prefix in zip(led, pair, strict=True):
                assert torch.equal(ours[:, :, :lead], prefix[:, :, 530 - lead :])
        assert fork.tail(layer).abs().sum() == 0


@torch.inference_mode()
def test_every_cache_that_decodes_has_its_lead(tiny_target: Path, copied: bool) -> None:
    """A question in one pass with the video, and gathered rows, as well as a fork."""
    model = load_model(tiny_target, torch.device("cpu"), torch.float32)
    prefix = model.encode(model.prepare(random_frames(18, 224, 224), fps=2.0), "reference")
    suffix = model.suffix_ids("What moves?")
    beside = Decoder.prefill_with_question(model.language, prefix, suffix, rows=40)
    fork = Decoder.prefill(model.language, prefix).fork(40)
    torch.testing.assert_close(beside.last_hidden, fork.append(suffix)[:, -1:])
    drafts = [
        SelfSource().decoder(suffix, kept, compact=False, rows=40, target=beside)
        for kept in (torch.arange(2, 574), None)
    ]
    for decoder in (beside, fork, *drafts):
        kv = decoder.kv
        assert kv.lead == (kv.prefix_length if copied else count_lead(kv.prefix_length)) > 0
        for layer, pair in enumerate(kv.prefix):
            led = kv.lead_and_tail(layer, kv.lead, 0)
            assert torch.equal(led, torch.stack(pair)[:, :, :, -kv.lead :])
    kept = beside.prompt_only().kv
    assert (kept.lead, kept.length) == (0, 0)
    assert kept.prefix is beside.kv.prefix


def test_parts_follow_a_prefix_that_is_replaced() -> None:
    spec = KVSpec(1, 1, 1, DIM, torch.float32, torch.device("cpu"))
    kv = KVCache(spec, 1, 4)
    rows = draw(1, 1, 1, 20, DIM)
    kv.freeze(0, rows, rows)
    parts = kv.prefix_parts(0, 2, 20)
    assert kv.prefix_parts(0, 2, 20) is parts
    kept = rows[:, :, :10].clone()
    kv.prefix = [(kept, kept)]
    torch.testing.assert_close(kv.prefix_parts(0, 2, 10).key.flatten(), kept.flatten())
    assert kv.fork(4).prefix_parts(0, 2, 10).key.data_ptr() == kept.data_ptr()


def test_answers_behind_a_prefix_in_parts_equal_generate(
    tiny_target: Path, tiny_perturbed: Path, cuts: list[int], copied: bool
) -> None:
    cpu, before = torch.device("cpu"), torch.get_num_threads()
    target, draft = (load_model(path, cpu, torch.float32) for path in (tiny_target, tiny_perturbed))
    run = Run(target, draft, target.prepare(random_frames(18, 224, 224), fps=2.0), max_tokens=24)
    torch.set_num_threads(4)
    expected = run.transformers("What moves?")
    assert run.prefill().target.fork(1).kv.lead
    names = ("plain", "sd", "sd-tree", "auto", "self", "specvlm", "parallelvlm")
    answers = [run.ask("What moves?", method_settings(name))[0] for name in names]
    torch.set_num_threads(before)
    assert answers == [expected] * len(names)
    assert copied or max(cuts) > 1
