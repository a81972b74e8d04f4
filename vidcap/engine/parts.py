"""A long frozen prefix cut into parts that are attended to side by side.

The flash kernel of CPUs shares its work out by sequences, key heads and blocks of 32 query rows.
One row of a model with one key head is a single block, three blocks on two threads take as long as
four, and of 33 rows one thread takes 32. Parts of the prefix side by side are more blocks of less
work each. The softmax over all parts follows from their log-sum-exps, as flash-decoding does it on
GPUs (https://pytorch.org/blog/flash-decoding).

Parts cost a call for the tail, and a merge. A small prefix lies in front of the tail once more, so
that one call can attend to both where that is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
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

#: Fewest keys of a part.
_PART_KEYS = 64

#: What a block costs for each of its keys beside its rows, which is mostly bringing keys and values
#: into the order of the matrix products, in rows: blocks of 3, 18 and 32 rows took 96, 165 and
#: 240 us behind 1,024 keys, one thread of an AMD EPYC.
_BLOCK_ROWS_MORE = 14

#: What a part more costs in products of rows and keys: its view, its mask and its share in the
#: merge took 8 to 15 us where such a product takes 0.005.
_PART_COST = 2400

#: What it costs in such products to attend to the tail apart from the prefix: another call and the
#: merge took 50 to 90 us in a decode step of 12 layers, behind 1,045 and 4,117 tokens.
_TAIL_COST = 18000


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
def count_parts(
    sequences: int, kv_heads: int, rows: int, keys: int, threads: int, joined: bool = False
) -> int:
    """How many parts of a prefix take the least time, 1 where it should stay whole.

    Args:
        sequences, kv_heads: of the keys.
        rows: query rows per key head.
        keys: of the prefix.
        threads: that share the work.
        joined: whether the tail is attended to in the same call where the prefix stays whole.
    """
    if rows >= _MANY_ROWS or (sequences > 1 and kv_heads > 1):
        return 1  # for the latter: no view has parts, sequences and heads in two dimensions
    whole, rest = divmod(rows, BLOCK_ROWS)
    blocks = [BLOCK_ROWS + _BLOCK_ROWS_MORE] * whole
    if rest:
        blocks.append(max(2, rest) + _BLOCK_ROWS_MORE)
    blocks *= sequences * kv_heads

    def cost(parts: int) -> float:
        apart = _TAIL_COST if joined and parts > 1 else 0
        return _busiest(blocks * parts, threads) * keys / parts + _PART_COST * (parts - 1) + apart

    most = max(1, min(threads, keys // _PART_KEYS))
    return min(range(1, most + 1), key=cost)


def _busiest(blocks: Sequence[int], threads: int) -> int:
    """The largest share of a thread; each takes equally many blocks that follow each other."""
    each = -(-len(blocks) // threads)
    return max(sum(blocks[at : at + each]) for at in range(0, len(blocks), each))


def joins_tail(sequences: int, kv_heads: int, rows: int, keys: int, threads: int) -> bool:
    """Whether one call over prefix and tail, side by side in memory, is the fastest for these rows.

    Of many rows it is not: the mask of the tail would have to cover the prefix as well.
    """
    if rows >= _MANY_ROWS:
        return False
    return count_parts(sequences, kv_heads, rows, keys, threads, joined=True) == 1


def count_lead(keys: int) -> int:
    """How many of the last keys of a prefix should be attended to with the tail, if not all.

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
