"""What a table of costs learns from calls whose cost is known."""

from __future__ import annotations

import math
import random

import pytest
import torch

from vidcap.engine.attention import rows_per_block
from vidcap.engine.costs import CostTable
from vidcap.engine.kernels import flash_works
from vidcap.engine.kv import KVSpec


def stepped(rows: int, block: float) -> float:
    """5 ms, 0.1 ms for every row and 2 ms for every block behind the first."""
    return 5.0 + 0.1 * rows + 2.0 * (math.ceil(rows / block) - 1)


def taught(table: CostTable, block: float, noise: float = 0.0, calls: int = 200) -> CostTable:
    rng = random.Random(0)
    for _ in range(calls):
        rows = rng.randint(1, 26)
        table.observe_verify(rows, stepped(rows, block) * (1 + noise * rng.uniform(-1, 1)))
    return table


def test_costs_have_a_fixed_part_and_one_per_row() -> None:
    costs = CostTable()
    assert costs.verify(5) == 0
    costs.observe_verify(1, 500.0)  # the first call of all does not count
    costs.observe_verify(1, 10.0)
    assert 10.0 < costs.verify(26) < 20.0
    for rows in (3, 11, 26, 5):
        costs.observe_verify(rows, 9.8 + 0.2 * rows)
    assert costs.verify(21) == pytest.approx(14.0)
    assert costs.row() == pytest.approx(0.2)
    costs.observe_verify(1, 1000.0)
    assert costs.plain_s == pytest.approx(14.0)
    assert costs.plain() <= 14.0
    assert costs.verify(1) < 20
    costs.observe_draft(4, 80.0)
    costs.observe_draft(4, 8.0)
    assert costs.draft() == 2.0


@pytest.mark.parametrize("block", [32 / 3, 32 / 7, 8.0])
def test_a_block_that_has_just_begun_costs_more_than_a_row(block: float) -> None:
    full = math.floor(block)
    known, line = taught(CostTable(block), block), taught(CostTable(), block)
    jump = known.verify(full + 1) - known.verify(full)
    assert jump > 1.4
    assert line.verify(full + 1) - line.verify(full) < 0.7
    within = known.verify(2 * full) - known.verify(full + 1)
    assert within / (full - 1) < 0.2


def test_blocks_are_seen_through_noise_and_not_where_there_are_none() -> None:
    noisy = taught(CostTable(8.0), 8.0, noise=0.1)
    assert 1.0 < noisy.verify(9) - noisy.verify(8) < 3.0
    smooth = taught(CostTable(8.0), math.inf)
    assert smooth.verify(9) - smooth.verify(8) == pytest.approx(0.1, abs=0.01)


def test_no_row_and_no_block_is_ever_cheaper_than_nothing() -> None:
    table = CostTable(8.0)
    for rows in (1, 4, 9, 16, 25):
        table.observe_verify(rows, 10.0 - 0.1 * rows)
    assert table.row() == 0
    assert table.verify(9) <= table.verify(17) <= table.verify(25)


@pytest.mark.parametrize("block", [0.0, 8.0])
@pytest.mark.parametrize("limit", [0, 16])
def test_no_call_seems_to_take_nothing_where_many_rows_cost_the_more(
    block: float, limit: int
) -> None:
    """A line through such calls meets one row below zero, and what was seen is held against it."""

    def bent(rows: int) -> float:
        return 2.0 + 0.03 * max(0, rows - limit) ** 2 + 10.0 * (rows > limit > 0)

    table, rng = CostTable(block), random.Random(1)
    for _ in range(600):
        rows = rng.randint(1, 26)
        table.observe_verify(rows, bent(rows) * rng.uniform(0.8, 1.2))
        assert all(table.verify(rows) >= 0 for rows in range(1, 27))
    assert table.plain() > 0
    assert table.verify(26) == pytest.approx(bent(26), rel=0.4)


def test_calls_that_took_no_time_are_no_reason_to_stop() -> None:
    table = CostTable(8.0)
    for rows in (1, 1, 9, 20):
        table.observe_verify(rows, 0.0)
    assert table.verify(5) == table.row() == 0


def test_an_emptied_table_knows_its_blocks_and_that_the_first_call_is_over() -> None:
    emptied = taught(CostTable(8.0), 8.0).emptied()
    assert emptied.block == 8.0
    assert emptied.verify(3) == 0
    emptied.observe_verify(3, 7.0)
    assert emptied.verify(3) == 7.0


def test_blocks_are_those_of_the_flash_kernel() -> None:
    cpu = torch.device("cpu")
    spec = KVSpec(2, 1, 3, 128, torch.bfloat16, cpu)
    assert flash_works(cpu, torch.bfloat16, 128)
    assert rows_per_block(spec) == pytest.approx(32 / 3)
    assert rows_per_block(KVSpec(2, 1, 3, 128, torch.bfloat16, cpu, "sdpa")) == 0
    assert rows_per_block(KVSpec(2, 1, 3, 128, torch.bfloat16, torch.device("cuda"))) == 0
