"""The verifier's side of a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.step import TargetStep


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict on the device.

    Attributes:
        count: Long[b] accepted drafts.
        path: Long[b, n] accepted nodes by depth, the root first; behind `count` undefined.
        drafts: Long[b, n] their tokens.
        next_token: Long[b] the token that follows them.
    """

    count: Tensor
    path: Tensor
    drafts: Tensor
    next_token: Tensor

    def read(self) -> list[Accepted]:
        """Bring the verdict to the host: the one synchronisation of a round."""
        columns = [self.count[:, None], self.next_token[:, None], self.path, self.drafts]
        width = self.path.shape[1]
        rows = torch.cat(columns, dim=1).tolist()
        return [
            Accepted(
                nodes=tuple(row[2 : 3 + row[0]]),
                tokens=(*row[3 + width : 3 + width + row[0]], row[1]),
            )
            for row in rows
        ]


class Verifier(Protocol):
    """Decides which drafts become output."""

    def judge(self, proposal: Proposal, scores: Tensor, step: TargetStep) -> Accepted:
        """Judge a tree.

        Args:
            proposal: what was drafted.
            scores: float32 [b, n, V] the target's processed scores; row i follows node i.
            step: the verification pass that they come from.
        """
        ...
