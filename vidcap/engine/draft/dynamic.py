"""A model drafts a tree whose form follows its own confidence (EAGLE-2, EMNLP 2024).

Every level expands the `width` most probable frontier nodes by their `width` best continuations;
of all candidates the `nodes` with the highest path probability make the tree. All of it is tensor
operations over a level; no loop runs over nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.rows import DraftRows
from vidcap.engine.logits import LogitsStack
from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.tree import Tree


@dataclass(frozen=True, slots=True)
class DynamicSettings:
    """Form of a dynamic tree.

    EAGLE-2's programs count the root among the nodes and the first level not as depth: what they
    call 60 nodes, depth 5, width 10 is 59, 6, 10 here.

    Attributes:
        nodes: drafted tokens per round.
        depth: levels below the root, each but the last one a draft forward.
        width: frontier nodes per level, and continuations tried for each.
    """

    nodes: int = 30
    depth: int = 4
    width: int = 8


@dataclass(slots=True)
class _Candidates:
    """Every continuation scored in a round, level by level; parents come before children.

    Attributes (per candidate): token, parent candidate (-1 for the root), log-probability of its
    path, depth, and row in the draft's tail (-1 where it was not run).
    """

    tokens: Tensor
    parents: Tensor
    scores: Tensor
    depths: Tensor
    rows: Tensor

    def extend(self, tokens: Tensor, parents: Tensor, scores: Tensor, depth: int) -> Tensor:
        """Add candidates of one level; returns their indices."""
        begin = len(self.tokens)
        self.tokens = torch.cat([self.tokens, tokens])
        self.parents = torch.cat([self.parents, parents])
        self.scores = torch.cat([self.scores, scores])
        self.depths = torch.cat([self.depths, torch.full_like(tokens, depth)])
        self.rows = torch.cat([self.rows, torch.full_like(tokens, -1)])
        return torch.arange(begin, len(self.tokens), device=tokens.device)


class DynamicDrafter:
    """Drafts EAGLE-2 trees with a model. Continuations are chosen, never drawn."""

    def __init__(self, decoder: Decoder, settings: DynamicSettings, stack: LogitsStack):
        """Args:
        decoder: the drafting model behind the prompt.
        settings: size and form of the tree.
        stack: the request's logits stack, shared with the target.
        """
        self._rows = DraftRows(decoder)
        self._settings = settings
        self._stack = stack
        self._row_of: Tensor | None = None

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        width = self._settings.width
        hidden = self._rows.feed(root)
        logits = self._rows.decoder.model.logits(hidden).to(root.device)
        alone = torch.ones(1, 1, 1, dtype=torch.bool, device=root.device)
        best = self._log_probs(logits, root, alone)[0, 0].topk(width)
        none = root.new_zeros(0)
        found = _Candidates(none, none, best.values[:0], none, none)
        frontier = found.extend(best.indices, root.new_full((width,), -1), best.values, 1)
        slot = frontier
        mask = torch.zeros(1, width, 0, dtype=torch.bool, device=root.device)
        for depth in range(1, self._settings.depth):
            frontier, slot, mask = self._expand(root, found, frontier, slot, mask, depth)
        return Proposal(self._select(root, found), calls=self._rows.calls)

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        if self._row_of is None:
            raise ValueError("commit without a proposal")
        self._rows.commit(accepted, self._row_of.tolist())

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._rows.skip(root, accepted)

    def _expand(
        self,
        root: Tensor,
        found: _Candidates,
        frontier: Tensor,
        slot: Tensor,
        mask: Tensor,
        depth: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run the frontier and add its continuations.

        Args:
            frontier: Long[k] candidates to run.
            slot: Long[k] place of each one's parent in the frontier before.
            mask: bool[1, k, rows] ancestors of each frontier node among the rows so far.

        Returns:
            the same three for the next level.
        """
        width = self._settings.width
        own = torch.eye(len(frontier), dtype=torch.bool, device=root.device)[None]
        seen = torch.cat([mask, own], dim=2)
        found.rows[frontier] = torch.arange(mask.shape[2], seen.shape[2], device=root.device)
        hidden = self._rows.run(found.tokens[frontier][None], depth, seen)
        logits = self._rows.decoder.model.logits(hidden).to(root.device)
        path_tokens = torch.cat([root[0], self._row_tokens(found)])[None]
        with_root = torch.nn.functional.pad(seen, (1, 0), value=True)
        best = self._log_probs(logits, path_tokens, with_root)[0].topk(width, dim=-1)
        scores = (found.scores[frontier][:, None] + best.values).flatten()
        parents = frontier.repeat_interleave(width)
        added = found.extend(best.indices.flatten(), parents, scores, depth + 1)
        top = scores.topk(min(width, len(scores))).indices
        slot = top // width
        return added[top], slot, seen[:, slot]

    def _row_tokens(self, found: _Candidates) -> Tensor:
        """Tokens of the candidates that were run, in the order of their rows."""
        ran = (found.rows >= 0).nonzero().flatten()
        return found.tokens[ran[found.rows[ran].argsort()]]

    def _log_probs(self, logits: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
        return torch.log_softmax(self._stack.process(logits, tokens, mask), dim=-1)

    def _select(self, root: Tensor, found: _Candidates) -> Tree:
        """The tree of the most probable paths."""
        order = torch.sort(found.scores, descending=True, stable=True).indices
        chosen = order[: self._settings.nodes].sort().values
        place = torch.zeros(len(found.tokens) + 1, dtype=torch.long, device=root.device)
        place[chosen] = torch.arange(1, len(chosen) + 1, device=root.device)
        # Index -1, the parent of the first level, is the spare last entry: node 0.
        parents = place[found.parents[chosen]]
        depths = torch.nn.functional.pad(found.depths[chosen], (1, 0))
        self._row_of = torch.nn.functional.pad(found.rows[chosen], (1, 0), value=-1)
        parents = torch.nn.functional.pad(parents, (1, 0))
        mask = ancestors(parents, self._settings.depth)
        parents[0] = -1
        tokens = torch.cat([root[0], found.tokens[chosen]])
        return Tree(tokens[None], parents[None], depths[None], mask[None])


def ancestors(parents: Tensor, depth: int) -> Tensor:
    """bool[n, n] row i sees itself and its ancestors.

    Args:
        parents: Long[n]; the root is its own parent.
        depth: of the deepest node.
    """
    nodes = torch.arange(len(parents), device=parents.device)
    mask = torch.eye(len(parents), dtype=torch.bool, device=parents.device)
    above = nodes
    for _ in range(depth):
        above = parents[above]
        mask[nodes, above] = True
    return mask
