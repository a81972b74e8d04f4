"""From scores and a budget to the kept visual tokens.

Every function returns Long[budget] sorted, unique indices into the m visual tokens.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def budget(count: int, drop: float) -> int:
    """Visual tokens that stay of `count` when the share `drop` is dropped, rounded down.

    The small addend keeps 1,000 * (1 - 0.9) at 100 in floating point.
    """
    return min(count, math.floor(count * (1 - drop) + 1e-9))


def spread(count: int, picks: int, device: torch.device | None = None) -> Tensor:
    """Long[picks] distinct indices spread evenly from the first to the last of `count`.

    An integer version of linspace: exact, with both ends in (one pick takes the first).
    """
    order = torch.arange(picks, device=device)
    if picks <= 1:
        return order
    return order * (count - 1) // (picks - 1)


def select_uniform(count: int, picks: int, device: torch.device | None = None) -> Tensor:
    """Evenly spread over the flattened raster."""
    return spread(count, picks, device)


def select_top(scores: Tensor, picks: int) -> Tensor:
    """The highest scores (float[m]); of equal ones the earlier."""
    order = torch.sort(scores, descending=True, stable=True).indices
    return order[:picks].sort().values


def select_two_stage(scores: Tensor, picks: int, mass: float) -> Tensor:
    """SpecVLM's selection (arXiv 2508.16201, code of the authors).

    Stage one takes the fewest highest scores that hold the share `mass` of the whole, at most the
    budget; stage two spreads what is left of the budget evenly over the rest in raster order.

    Args:
        scores: float[m], not negative.
        picks: the budget.
        mass: lambda_r in 0..1.
    """
    top = _stage_one(scores, picks, mass)
    free = torch.ones(len(scores), dtype=torch.bool, device=scores.device)
    free[top] = False
    rest = free.nonzero().flatten()
    evenly = rest[spread(len(rest), picks - len(top), scores.device)]
    return torch.cat([top, evenly]).sort().values


def select_stratified(
    scores: Tensor, picks: int, grid: tuple[int, int, int], mass: float
) -> Tensor:
    """Two stages with the second one spread over time and space.

    Stage one as in :func:`select_two_stage`. Stage two gives every frame an equal share of what is
    left of the budget, and inside a frame takes the best-scored free token of evenly spaced cells.

    Args:
        scores: float[m] with m = frames * height * width of `grid`.
        picks: the budget.
        grid: visual tokens in time, height and width.
        mass: share of the score that stage one holds.
    """
    frames, height, width = grid
    if frames * height * width != len(scores):
        raise ValueError(f"{len(scores)} scores do not fill a grid of {grid}")
    top = _stage_one(scores, picks, mass)
    left = picks - len(top)
    free = torch.ones(len(scores), dtype=torch.bool, device=scores.device)
    free[top] = False
    # A token's turn: how many better free tokens its cell holds. Cells are visited round by round.
    cell = _cells(frames, height, width, max(1, left), scores.device)
    ranked = torch.sort(
        torch.where(free, scores.double(), -torch.inf), descending=True, stable=True
    )
    turn = _rank_within(cell[ranked.indices])
    usable = free[ranked.indices]
    key = torch.where(usable, turn, len(scores) + 1)
    chosen = ranked.indices[torch.sort(key, stable=True).indices[:left]]
    return torch.cat([top, chosen]).sort().values


def _stage_one(scores: Tensor, picks: int, mass: float) -> Tensor:
    ranked, order = torch.sort(scores.double(), descending=True, stable=True)
    held = ranked.cumsum(0)
    if not len(held) or mass <= 0:
        return order[:0]
    return order[: min(int((held < mass * held[-1]).sum()) + 1, picks)]


def _cells(frames: int, height: int, width: int, wanted: int, device: torch.device) -> Tensor:
    """Long[m]: blocks of about equal size in time, height and width, at most `wanted` of them."""
    slots = max(1, min(frames, wanted))
    per_frame = max(1, wanted // slots)
    rows = max(1, min(height, round(math.sqrt(per_frame * height / width))))
    columns = max(1, min(width, per_frame // rows))
    time, row, column = torch.meshgrid(
        torch.arange(frames, device=device) * slots // frames,
        torch.arange(height, device=device) * rows // height,
        torch.arange(width, device=device) * columns // width,
        indexing="ij",
    )
    return ((time * rows + row) * columns + column).flatten()


def _rank_within(groups: Tensor) -> Tensor:
    """Long[n]: how many earlier entries belong to the same group."""
    order = torch.sort(groups, stable=True)
    starts = torch.searchsorted(order.values, order.values)
    ranks = torch.empty_like(groups)
    ranks[order.indices] = torch.arange(len(groups), device=groups.device) - starts
    return ranks
