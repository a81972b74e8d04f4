"""Watching a generation without changing it: its tokens, and where the draft went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor

from vidcap.engine.draft.base import Drafter
from vidcap.engine.loop import Generation
from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.tree import Tree


@dataclass(frozen=True, slots=True)
class Rejection:
    """A round's first place where the draft's choice was not the target's.

    Attributes:
        position: index in the generated tokens.
        drafted: what the draft had there and behind it, its likeliest tokens.
    """

    position: int
    drafted: tuple[int, ...]


class RecordingDrafter:
    """Passes everything on to a drafter and notes what became of its proposals.

    Trees stay on their device until :meth:`rejections` reads them, so nothing waits in the loop.
    """

    def __init__(self, inner: Drafter):
        self._inner = inner
        self._rounds: list[tuple[Tree, Accepted]] = []
        self.calls = 0

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        proposal = self._inner.propose(root)
        self.calls += proposal.calls
        return proposal

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._rounds.append((proposal.tree, accepted))
        self._inner.commit(proposal, accepted)

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._inner.skip(root, accepted)

    def rejections(self, generated: int) -> tuple[Rejection, ...]:
        """The first mismatch of every round that had one, among the `generated` tokens."""
        found = []
        position = 1  # The first token comes from the prompt alone.
        for tree, accepted in self._rounds:
            drafted = _continuation(tree, accepted.nodes[-1])
            place = position + len(accepted.nodes) - 1
            if drafted and place < generated:
                found.append(Rejection(place, drafted))
            position += len(accepted.tokens)
        return tuple(found)


def _continuation(tree: Tree, node: int) -> tuple[int, ...]:
    """Tokens from a node's likeliest child on, each the likeliest behind the one before."""
    parents, tokens = tree.parents[0].tolist(), tree.tokens[0].tolist()
    path = []
    while node in parents:
        # Children are ordered by rank.
        node = parents.index(node)
        path.append(tokens[node])
    return tuple(path)


@dataclass(slots=True)
class Watch:
    """Stands between a generation and whoever iterates over it.

    Attributes:
        tokens: what was generated so far.
        drafter: notes about the draft, from the first round on.
    """

    tokens: list[int] = field(default_factory=list)
    drafter: RecordingDrafter | None = None

    def __call__(self, generation: Generation) -> Iterator[tuple[int, ...]]:
        """The generation's rounds, noted while they pass."""
        make = generation.make_drafter

        def make_recorded() -> Drafter:
            self.drafter = RecordingDrafter(make())
            return self.drafter

        generation.make_drafter = make_recorded
        for tokens in generation:
            self.tokens += tokens
            yield tokens

    @property
    def draft_calls(self) -> int:
        """Forward passes of the draft while decoding."""
        return self.drafter.calls if self.drafter else 0

    def rejections(self) -> tuple[Rejection, ...]:
        """Where the draft went wrong, round by round."""
        return self.drafter.rejections(len(self.tokens)) if self.drafter else ()
