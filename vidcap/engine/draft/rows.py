"""Which drafted tokens have rows in the draft's tail, shared by every drafter that runs a model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.round import Accepted


class DraftRows:
    """Feeds committed tokens to a drafting model and keeps the rows of accepted drafts.

    A round feeds the newest committed token (and what earlier rounds left unfed), then tree nodes
    row by row. Rows of accepted nodes stay valid; an accepted node without a row is fed later.

    Attributes:
        calls: forward passes of the current round.
    """

    def __init__(self, decoder: Decoder):
        """Args: decoder: the drafting model behind the prompt."""
        self.decoder = decoder
        self.calls = 0
        self._unfed: list[int] = []

    def feed(self, root: Tensor) -> Tensor:
        """Run `root` (Long[b, 1]) and what is unfed; returns the root's hidden state [b, 1, d]."""
        self.calls = 1
        ids = root.to(self.decoder.kv.spec.device)
        if self._unfed:
            ids = torch.cat([ids.new_tensor([self._unfed]), ids], dim=1)
            self._unfed = []
        return self.decoder.append(ids)[:, -1:]

    def follow(self, ids: Tensor, depth: int) -> Tensor:
        """Run the next node of a chain, Long[b, 1], which sees all rows; see :meth:`run`."""
        self.calls += 1
        return self.decoder.run(ids, torch.full_like(ids, depth - 1), None, offset=depth - 1)

    def run(self, ids: Tensor, depth: int | Tensor, mask: Tensor) -> Tensor:
        """Run nodes of one level as the next rows.

        Args:
            ids: Long[b, q] their tokens.
            depth: 1 for children of the root; Long[b, q] or the same for all.
            mask: bool[b, q, rows + q] which uncommitted rows each node sees, itself included.

        Returns:
            hidden states [b, q, d].
        """
        # A node of depth n sees n rows. On a chain these are all there are, and kernels without a
        # mask are cheaper.
        if isinstance(depth, int) and ids.shape[1] == 1 and mask.shape[2] == depth:
            return self.follow(ids, depth)
        self.calls += 1
        depths = torch.zeros_like(ids) + depth - 1
        return self.decoder.run(ids, depths, mask, offset=mask.shape[2] - ids.shape[1])

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """Note the committed tokens of a round in which nothing was fed."""
        self._unfed += [*root[0].tolist(), *accepted.tokens[:-1]]

    def commit(self, accepted: Accepted, row_of: Sequence[int]) -> None:
        """Keep the rows of accepted nodes.

        Args:
            accepted: the verdict.
            row_of: per tree node its row in this round, -1 where it was not run.
        """
        rows = [row_of[node] for node in accepted.nodes[1:]]
        fed = next((index for index, row in enumerate(rows) if row < 0), len(rows))
        self.decoder.commit(rows[:fed])
        self._unfed = list(accepted.tokens[fed:-1])
