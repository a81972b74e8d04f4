"""A model whose layers are cut over several processes, as the engine sees it.

Each process (rank) has some heads and some inner rows of every layer, and the keys and values of
its heads. The engine runs in the first rank alone: the others repeat its passes, and what it does
to keys and values between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from vidcap.engine.kv import KVCache


class Shards(Protocol):
    """The ranks of a model, seen from one of them."""

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def sum(self, tensor: Tensor) -> Tensor:
        """Add up the tensors of all ranks, in place; every rank has to call it."""
        ...

    def note(self, cache: KVCache, change: str, arguments: tuple[Any, ...]) -> None:
        """Have the other ranks do to their keys and values what is done to these.

        Args:
            cache: the keys and values.
            change: the method that is called here, ``new`` for a cache that begins.
            arguments: of the call: numbers, tensors, other caches.
        """
        ...
