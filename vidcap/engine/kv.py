"""Keys and values of a sequence: a frozen prompt prefix and a small tail behind it.

The prefix (system text and all visual tokens) never changes after its prefill, so it is kept as it
came and can be shared by several questions. The tail has a fixed size and holds the question, the
generated tokens and, behind the committed rows, the nodes of the tree under verification. Rolling
back means leaving the length as it is; committing a tree path gathers its rows inside the tail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import groupby
from typing import Any, Concatenate, ParamSpec

import torch
from torch import Tensor

from vidcap.engine.parts import Parts, count_lead, cut, joins_tail
from vidcap.engine.shards import Shards
from vidcap.engine.sizes import LARGEST_COPIED_BYTES
from vidcap.settings import AttentionName

Arguments = ParamSpec("Arguments")

#: The tail has a multiple of this many rows.
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class KVSpec:
    """Sizes of one model's keys and values, and what attends to them.

    Attributes:
        layers: decoder layers.
        kv_heads: key heads, each shared by `group` query heads of `head_dim` numbers.
        dtype: of keys and values.
        device: where states enter and leave the model, and where it lies unless `layer_devices`
            says otherwise.
        attention: see :class:`vidcap.settings.ModelSettings`.
        layer_devices: where every layer runs and has its keys and values, empty where all of them
            do on `device`.
        shards: the ranks that share the heads, `kv_heads` for each; None where one has them all.
    """

    layers: int
    kv_heads: int
    group: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device
    attention: AttentionName = "auto"
    layer_devices: tuple[torch.device, ...] = ()
    shards: Shards | None = None

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """Every device that the model computes on, that of its ends first."""
        return tuple(dict.fromkeys((self.device, *self.layer_devices)))

    @property
    def runs(self) -> list[tuple[torch.device, int]]:
        """Consecutive layers on one device, and how many they are."""
        places = self.layer_devices or (self.device,) * self.layers
        return [(device, len(list(group))) for device, group in groupby(places)]

    def lead(self, batch: int, keys: int) -> int:
        """How many rows of a prefix of `keys` should lie in front of the tail once more."""
        if self.attention == "sdpa" or any(device.type != "cpu" for device in self.devices):
            return 0
        numbers = 2 * self.layers * batch * self.kv_heads * keys * self.head_dim
        small = numbers * self.dtype.itemsize <= LARGEST_COPIED_BYTES
        return keys if small else count_lead(keys)


def _noted(
    change: Callable[Concatenate[KVCache, Arguments], None],
) -> Callable[Concatenate[KVCache, Arguments], None]:
    """A change outside the passes of the model, which every rank has to make."""

    @wraps(change)
    def noted(cache: KVCache, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        if cache.spec.shards is not None:
            if kwargs:
                raise TypeError(f"{change.__name__} is noted with arguments by position only")
            cache._note(change.__name__, *args)
        change(cache, *args, **kwargs)

    return noted


class KVCache:
    """The keys and values of one request.

    Attributes:
        prefix: per layer a pair ([b, kv_heads, P, head_dim], same), empty before the prefill.
        lead: last rows of the prefix that lie in front of the tail once more. A small prefix lies
            there whole, so that one call attends to both; of a large one, only what the kernels
            take the rest sooner without.
        tails: per run of layers on one device [layers, 2, b, kv_heads, capacity, head_dim]; zeros
            where nothing was written, because a NaN in a masked row would survive the product with
            a zero probability.
        length: committed rows of the tail. All rows of a batch share it for now; the tensors
            already keep their batch dimension.
    """

    def __init__(self, spec: KVSpec, batch: int, tail_rows: int, lead: int = 0):
        """Args:
        spec: sizes, dtype and device.
        batch: sequences side by side.
        tail_rows: rows that the tail must hold; it gets a few more, see ``capacity``.
        lead: rows to provide in front of it, see :meth:`KVSpec.lead`; the prefix fills them.
        """
        self.spec = spec
        self.prefix: list[tuple[Tensor, Tensor]] = []
        capacity = -(-tail_rows // _ALIGNMENT) * _ALIGNMENT
        shape = (2, batch, spec.kv_heads, lead + capacity, spec.head_dim)
        led = [
            torch.zeros(layers, *shape, dtype=spec.dtype, device=device)
            for device, layers in spec.runs
        ]
        self.lead = lead
        self._led = [layer for run in led for layer in run]
        self.tails = [run.narrow(4, lead, capacity) for run in led]
        self._layers = [layer for tail in self.tails for layer in tail]
        self._parts: dict[tuple[int, int, int], tuple[Tensor, Parts]] = {}
        self.length = 0
        self._note("new", batch, tail_rows, lead)

    @property
    def prefix_length(self) -> int:
        """P, the rows of the frozen prefix."""
        return self.prefix[0][0].shape[2] if self.prefix else 0

    @property
    def capacity(self) -> int:
        """Rows the tail can hold."""
        return self.tails[0].shape[4]

    def tail(self, layer: int) -> Tensor:
        """Keys and values [2, b, kv_heads, capacity, d] of a layer's tail."""
        return self._layers[layer]

    def freeze(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Store a layer's prefix; key and value are [b, kv_heads, P, d].

        Raises:
            ValueError: layers arrive out of order.
        """
        if layer != len(self.prefix):
            raise ValueError(f"prefix of layer {layer} after {len(self.prefix)} layers")
        self.prefix.append((key.contiguous(), value.contiguous()))
        self._copy_lead(layer)

    def lead_for(self, rows: int) -> int:
        """How many of the lead's last rows a pass over `rows` tokens should see with the tail."""
        keys = self.prefix_length
        if self.lead < keys or not keys:
            return self.lead
        batch, kv_heads = self.tails[0].shape[2], self.spec.kv_heads
        threads = torch.get_num_threads()
        joins = joins_tail(batch, kv_heads, self.spec.group * rows, keys, threads)
        return keys if joins else count_lead(keys)

    def lead_and_tail(self, layer: int, lead: int, rows: int) -> Tensor:
        """Keys and values [2, b, kv_heads, lead + rows, d]: last lead rows, first tail rows."""
        return self._led[layer].narrow(3, self.lead - lead, lead + rows)

    def prefix_parts(self, layer: int, parts: int, keys: int) -> Parts:
        """The first `keys` rows of a layer's prefix in parts.

        They are cut once, as long as the prefix is the same.
        """
        key, value = self.prefix[layer]
        known = self._parts.get((layer, parts, keys))
        if known is None or known[0] is not key:
            made = cut(key.narrow(2, 0, keys), value.narrow(2, 0, keys), parts)
            known = self._parts[layer, parts, keys] = (key, made)
        return known[1]

    def write(self, layer: int, first: int, key: Tensor, value: Tensor) -> None:
        """Write key and value [b, kv_heads, q, d] into the tail rows from `first` on."""
        rows = self._layers[layer].narrow(3, first, key.shape[2])
        rows[0], rows[1] = key, value

    def write_pair(self, layer: int, first: int, pair: Tensor) -> None:
        """The same with keys and values as one tensor [2, b, kv_heads, q, d]."""
        self._layers[layer].narrow(3, first, pair.shape[3]).copy_(pair)

    @_noted
    def append_committed(self, rows: int) -> None:
        """Commit the next `rows` rows, which have just been written in order.

        Raises:
            ValueError: the tail has no room for them.
        """
        self._extend(rows)

    def _extend(self, rows: int) -> None:
        if self.length + rows > self.capacity:
            raise ValueError(f"tail of {self.capacity} rows is full")
        self.length += rows

    @_noted
    def rewind(self, length: int) -> None:
        """Forget the committed rows behind the first `length`.

        Raises:
            ValueError: there are fewer.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"{length} of {self.length} committed rows")
        self.length = length

    @_noted
    def commit(self, rows: Sequence[int]) -> None:
        """Keep the uncommitted rows `rows` (ascending offsets behind `length`), drop the rest."""
        start, count = self.length, len(rows)
        if list(rows) != list(range(count)):
            for tail in self.tails:
                index = torch.tensor(rows, device=tail.device) + start
                tail[..., start : start + count, :] = tail.index_select(4, index)
        self._extend(count)

    @_noted
    def copy_committed(self, other: KVCache) -> None:
        """Begin the tail with the committed rows of another cache of the same model."""
        for ours, theirs in zip(self.tails, other.tails, strict=True):
            ours[..., : other.length, :] = theirs[..., : other.length, :]
        self._extend(other.length)

    def fork(self, tail_rows: int) -> KVCache:
        """A cache that shares this one's prefix and starts with an empty tail of its own."""
        spec, batch = self.spec, self.tails[0].shape[2]
        other = KVCache(spec, batch, tail_rows, spec.lead(batch, self.prefix_length))
        other.share_prefix(self)
        return other

    @_noted
    def share_prefix(self, other: KVCache) -> None:
        """Have the prefix of another cache, and its last rows in front of the tail as well."""
        self.prefix = other.prefix
        for layer in range(len(self.prefix)):
            self._copy_lead(layer)

    @_noted
    def gather_prefix(self, other: KVCache, columns: Tensor) -> None:
        """Have copies of the rows `columns` (Long[n]) of another cache's prefix."""
        places = {device: columns.to(device) for device in self.spec.devices}
        self.prefix = [
            (key.index_select(2, places[key.device]), value.index_select(2, places[key.device]))
            for key, value in other.prefix
        ]
        for layer in range(len(self.prefix)):
            self._copy_lead(layer)

    def _copy_lead(self, layer: int) -> None:
        """Have the last rows of a layer's prefix in front of its tail."""
        if self.lead:
            for rows, prefix in zip(self._led[layer], self.prefix[layer], strict=True):
                rows[:, :, : self.lead] = prefix[:, :, -self.lead :]

    @_noted
    def reserve_prefix(self, rows: int) -> None:
        """Make room for a prefix that comes in pieces, see :meth:`take_piece`."""
        self.prefix = [_room(tail, rows) for tail in self._layers]

    @_noted
    def see_prefix(self, other: KVCache, rows: int) -> None:
        """Have the first `rows` rows of another cache's prefix, as views."""
        self.prefix = [(key[:, :, :rows], value[:, :, :rows]) for key, value in other.prefix]

    @_noted
    def take_piece(self, piece: KVCache, begin: int, end: int) -> None:
        """Take the first tail rows of another cache as the rows from `begin` on of the prefix."""
        for tail, pair in zip(piece._layers, self.prefix, strict=True):
            for rows, prefix in zip(tail, pair, strict=True):
                prefix[:, :, begin:end] = rows[:, :, : end - begin]

    def _note(self, change: str, *arguments: Any) -> None:
        if self.spec.shards is not None:
            self.spec.shards.note(self, change, arguments)


def _room(tail: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Room for `rows` keys and values of a layer, where its tail lies."""
    _, batch, heads, _, dim = tail.shape
    return tail.new_empty(batch, heads, rows, dim), tail.new_empty(batch, heads, rows, dim)
