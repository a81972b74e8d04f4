"""cos and sin of rotary positions for text rows, kept from step to step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

#: Tables begin and end at multiples of this.
_STRIDE = 512

#: Tables that are kept; each serves the texts behind prompts of about the same length.
_MOST_TABLES = 4

#: Rotary embeddings whose frequencies do not depend on how long the sequence has become.
_STEADY = frozenset({"default", "linear", "yarn", "llama3"})


class Rotation:
    """Looks up what the released rotary embedding computes.

    Text has the same position on all axes, so it does not matter which axis a release gives to
    which frequency, nor whether it merges them here or later.
    """

    def __init__(self, rotary: Any):
        """Args: rotary: the released module."""
        self._rotary = rotary
        self._steady = getattr(rotary, "rope_type", None) in _STEADY
        self._tables: dict[tuple[range, torch.dtype, torch.device], Tensor] = {}

    def __call__(
        self, like: Tensor, position_ids: Tensor, span: range | None
    ) -> tuple[Tensor, Tensor]:
        """cos and signed sin [b, n, 1, 2, head_dim / 2].

        Args:
            like: [b, n, d] rows, for their dtype and device.
            position_ids: Long[3, b, n] equal on all axes (text), or Long[b, n].
            span: where all of them lie, None where nobody knows.
        """
        if span is None or not self._steady:
            return self._compute(like, position_ids)
        ids = position_ids[0] if position_ids.dim() == 3 else position_ids
        base = span.start // _STRIDE * _STRIDE
        end = -(-span.stop // _STRIDE) * _STRIDE
        table = self._table(range(base, end), like, position_ids)
        rows = table.index_select(0, ids.flatten() - base)
        cos, sin = rows.view(*ids.shape, 1, 2, 2, -1).unbind(3)
        return cos, sin

    def _compute(self, like: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self._rotary(like, position_ids)
        if cos.dim() == 4:
            cos, sin = cos[0], sin[0]
        half = cos.shape[-1] // 2
        signed = torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)
        shape = (*cos.shape[:2], 1, 2, half)
        return cos.view(shape), signed.view(shape)

    def _table(self, span: range, like: Tensor, position_ids: Tensor) -> Tensor:
        """cos and signed sin [rows, 2 * head_dim] of the positions of a span."""
        key = (span, like.dtype, like.device)
        table = self._tables.get(key)
        if table is None:
            ids = torch.arange(span.start, span.stop, device=like.device)
            planes = (3, 1, -1) if position_ids.dim() == 3 else (1, -1)
            cos, sin = self._compute(like, ids.expand(planes))
            table = torch.stack((cos, sin), dim=3).reshape(len(span), -1)
            tables = {**self._tables, key: table}
            # Threads may run the same model: the dictionary is replaced, never changed.
            self._tables = dict(list(tables.items())[-_MOST_TABLES:])
        return table
