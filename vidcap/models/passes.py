"""What one rank tells another of a pass through the model.

Numbers go through a pipe, tensors from device to device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vidcap.engine.attention import AttentionStep, Deepstack
from vidcap.engine.kv import KVCache
from vidcap.engine.probe import Needs, Probe


@dataclass(frozen=True, slots=True)
class CacheName:
    """Stands for keys and values, which every rank has its own of."""

    number: int


@dataclass(frozen=True, slots=True)
class Change:
    """Something to be done to keys and values; see :class:`vidcap.engine.shards.Shards`."""

    cache: CacheName
    name: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """Shape and number format of a tensor that follows."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def empty(self, device: torch.device) -> Tensor:
        """Room for it."""
        return torch.empty(self.shape, dtype=self.dtype, device=device)


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass and what comes before it.

    Attributes:
        changes: to keys and values, in their order.
        cache: the keys and values of the pass.
        tensors: those that follow, as :func:`tensors_of` lists them; None is None.
        needs: of the probe, None where there is none.
        settings: fields of the :class:`AttentionStep` that are neither tensors nor objects.
    """

    changes: tuple[Change, ...]
    cache: CacheName
    tensors: tuple[Form | None, ...]
    needs: Needs | None
    settings: dict[str, Any]

    def step(self, tensors: Sequence[Tensor | None], kv: KVCache) -> AttentionStep:
        """The step of the pass, for another rank's keys and values."""
        _, _, bias, columns, text_columns, deep_columns, *features = tensors
        probe = None
        if self.needs is not None and columns is not None:
            probe = Probe(self.needs, columns, text_columns=text_columns)
        deepstack = None
        if deep_columns is not None:
            deepstack = Deepstack(
                deep_columns, tuple(each for each in features if each is not None)
            )
        return AttentionStep(kv, bias=bias, probe=probe, deepstack=deepstack, **self.settings)


def describe(
    changes: Sequence[Change],
    cache: CacheName,
    tensors: Sequence[Tensor | None],
    step: AttentionStep,
) -> Pass:
    """A pass for the other ranks, from what this one is about to do."""
    probe = step.probe
    return Pass(
        tuple(changes),
        cache,
        tuple(None if each is None else Form(tuple(each.shape), each.dtype) for each in tensors),
        None if probe is None else probe.needs,
        {
            "first": step.first,
            "rows": step.rows,
            "lead": step.lead,
            "prefix_rows": step.prefix_rows,
            "positions": step.positions,
            "visual": step.visual,
            "keys_only": step.keys_only,
        },
    )


def tensors_of(embeds: Tensor, position_ids: Tensor, step: AttentionStep) -> list[Tensor | None]:
    """Every tensor that goes into a pass, always in the same order."""
    probe, deep = step.probe, step.deepstack
    return [
        embeds,
        position_ids,
        step.bias,
        None if probe is None else probe.columns,
        None if probe is None else probe.text_columns,
        None if deep is None else deep.columns,
        *(() if deep is None else deep.features),
    ]
