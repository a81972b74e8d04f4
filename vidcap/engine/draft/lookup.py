"""Prompt lookup: text that was there before may come again.

Costs no model call. The longest suffix of the text so far that occurred earlier (4 tokens down to
1) proposes what followed it then; of several places the latest counts. Visual placeholders never
match and are never proposed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import Tensor

from vidcap.engine.draft.base import Drafter
from vidcap.engine.draft.merge import merge_branch
from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.tree import ROOT_ONLY, TreeShape


class Lookup:
    """The text so far, searchable."""

    def __init__(self, prompt_ids: Sequence[int], barriers: Collection[int], longest: int = 4):
        """Args:
        prompt_ids: the whole prompt.
        barriers: ids that never match and end a proposal (visual placeholders).
        longest: tokens of the longest suffix to look for.
        """
        self._barriers = frozenset(barriers)
        self._longest = longest
        self._tokens: list[int] = []
        # Per n-gram the position behind its latest and its second latest occurrence.
        self._behind: dict[tuple[int, ...], tuple[int, int | None]] = {}
        self.extend(prompt_ids)

    def extend(self, tokens: Sequence[int]) -> None:
        """Add text."""
        for token in tokens:
            self._tokens.append(token)
            end = len(self._tokens)
            for size in range(1, min(self._longest, end) + 1):
                gram = tuple(self._tokens[end - size :])
                if self._barriers.isdisjoint(gram):
                    before = self._behind.get(gram)
                    self._behind[gram] = (end, before[0] if before else None)

    def continuation(self, count: int) -> list[int]:
        """At most `count` tokens that followed the longest known suffix, maybe none."""
        end = len(self._tokens)
        for size in range(min(self._longest, end), 0, -1):
            found = self._behind.get(tuple(self._tokens[end - size :]))
            # The latest occurrence is the suffix itself.
            if found is not None and found[1] is not None:
                return self._upto_barrier(self._tokens[found[1] : found[1] + count])
        return []

    def _upto_barrier(self, tokens: list[int]) -> list[int]:
        for index, token in enumerate(tokens):
            if token in self._barriers:
                return tokens[:index]
        return tokens


class LookupDrafter:
    """Drafts a chain by prompt lookup alone; the lone root where nothing matches."""

    def __init__(self, lookup: Lookup, length: int):
        """Args:
        lookup: the text so far.
        length: most tokens to propose.
        """
        self._lookup = lookup
        self._length = length

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._lookup.extend(root[0].tolist())
        tokens = self._lookup.continuation(self._length)
        if not tokens:
            return Proposal(ROOT_ONLY.with_tokens(root))
        row = root.new_tensor([[int(root[0, 0]), *tokens]])
        return Proposal(TreeShape.chain(len(tokens)).with_tokens(row))

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._lookup.extend(accepted.tokens[:-1])

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._lookup.extend([*root[0].tolist(), *accepted.tokens[:-1]])


class WithLookup:
    """Another drafter whose trees get a branch from prompt lookup, at no model call."""

    def __init__(self, drafter: Drafter, lookup: Lookup, length: int):
        """Args:
        drafter: drafts the tree.
        lookup: the text so far.
        length: most tokens of the branch.
        """
        self._drafter = drafter
        self._lookup = lookup
        self._length = length
        self._drafted: Proposal | None = None

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._drafted = self._drafter.propose(root)
        self._lookup.extend(root[0].tolist())
        branch = self._lookup.continuation(self._length)
        return merge_branch(self._drafted, branch)

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        if self._drafted is None:
            raise ValueError("commit without a proposal")
        self._lookup.extend(accepted.tokens[:-1])
        # The inner drafter knows its own nodes only; the tokens behind them it sees as unfed.
        known = self._drafted.tree.size
        nodes = tuple(node for node in accepted.nodes if node < known)
        self._drafter.commit(self._drafted, Accepted(nodes, accepted.tokens))

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._lookup.extend([*root[0].tolist(), *accepted.tokens[:-1]])
        self._drafter.skip(root, accepted)
