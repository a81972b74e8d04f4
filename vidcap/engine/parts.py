"""A long frozen prefix cut into parts that are attended to side by side.

The flash kernel of CPUs shares its work out by sequences, key heads and blocks of 32 query rows.
One row of a model with one key head is a single block, and three blocks on two threads take as long
as four. Parts of the prefix side by side are more blocks of less work
each. The softmax over all parts follows from their log-sum-exps, as flash-decoding does it on GPUs
(https://pytorch.org/blog/flash-decoding).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from vidcap.engine.kernels import BLOCK_ROWS

#: Keys that the kernel takes as one piece.
_BLOCK_KEYS = 512

#: Most keys of a piece that are better off with the tail than as a piece of their own.
_FEW_KEYS = 64

#: From this many rows on the kernel's blocks are larger, and there are blocks enough.
_MANY_ROWS = 192

#: What a part more costs beside its keys (a view, a mask, its share in the merge), in keys of a
#: block: 5 us on two threads of an AMD EPYC, where a key takes a block of 3 to 32 rows 0.1-0.25 us.
_PART_KEYS = 64


@dataclass(frozen=True, slots=True)
class Parts:
    """Keys and values of a prefix in equally long parts, views of what is stored.

    Where the number of keys is no multiple of the parts, neighbours share the few keys that are
    over, and the mask hides them from the first of the two.

    Attributes:
        key, value: [parts, kv_heads, n, d] of one sequence, else [b, parts, n, d] of one key head.
        mask: additive, broadcast over heads and rows, None where nothing is shared.
    """

    key: Tensor
    value: Tensor
    mask: Tensor | None

    def spread(self, query: Tensor) -> Tensor:
        """Query [b, kv_heads, rows, d], seen by every part."""
        return query.expand(*self.key.shape[:2], -1, -1)


@lru_cache(maxsize=1024)
def count_parts(sequences: int, kv_heads: int, rows: int, keys: int, threads: int) -> int:
    """How many parts of a prefix take the least time, 1 where it should stay whole.

    Args:
        sequences, kv_heads: of the keys.
        rows: query rows per key head.
        keys: of the prefix.
        threads: that share the work.
    """
    if rows >= _MANY_ROWS or (sequences > 1 and kv_heads > 1):
        return 1  # for the latter: no view has parts, sequences and heads in two dimensions
    blocks = sequences * kv_heads * -(-rows // BLOCK_ROWS)

    def cost(parts: int) -> float:
        return -(-blocks * parts // threads) * keys / parts + _PART_KEYS * (parts - 1)

    most = max(1, min(threads, keys // _PART_KEYS))
    return min(range(1, most + 1), key=cost)


def count_lead(keys: int) -> int:
    """How many of the last keys of a prefix should be attended to together with the tail.

    A piece of few keys takes the kernel nearly as long as one of many, and the tail is a piece
    anyway. Of other lengths only what keeps parts from being equally long is worth moving.
    """
    if keys < _BLOCK_KEYS:
        return 0
    rest = keys % _BLOCK_KEYS
    return rest if rest <= _FEW_KEYS else keys % 8


def cut(key: Tensor, value: Tensor, parts: int) -> Parts:
    """Cut a prefix of one sequence or one key head; key and value are [b, kv_heads, n, d]."""
    keys = key.shape[2]
    step = keys // parts
    length = keys - (parts - 1) * step
    single = key.shape[0] == 1

    def views(rows: Tensor) -> Tensor:
        if single:
            return rows[0].unfold(1, length, step).permute(1, 0, 3, 2)
        return rows[:, 0].unfold(1, length, step).transpose(2, 3)

    mask = None
    if length > step:
        mask = key.new_zeros(parts, length)
        mask[:-1, step:] = -torch.inf
        mask = mask[:, None, None] if single else mask[None, :, None]
    return Parts(views(key), views(value), mask)


def stacked(out: Tensor, lse: Tensor, sequences: int) -> tuple[Tensor, Tensor]:
    """What the parts give, as [parts, b, kv_heads, rows, d] and [parts, b, kv_heads, rows]."""
    if sequences == 1:
        return out.unsqueeze(1), lse.unsqueeze(1)
    return out.transpose(0, 1).unsqueeze(2), lse.transpose(0, 1).unsqueeze(2)


def merge_parts(outs: Tensor, lses: Tensor, out: Tensor, lse: Tensor) -> Tensor:
    """Join the partial attentions of several parts and one more.

    Args:
        outs, lses: as :func:`stacked` returns them.
        out, lse: [b, kv_heads, rows, d] and float32 [b, kv_heads, rows].
    """
    shares = torch.softmax(torch.cat((lses, lse.unsqueeze(0))), dim=0).unsqueeze(-1)
    return (torch.cat((outs, out.unsqueeze(0))) * shares).sum(0).to(out.dtype)
