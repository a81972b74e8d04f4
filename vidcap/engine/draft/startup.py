"""A first window that is drafted before the target's first token is known (ParallelVLM, 3.2).

While the target is still busy with its prompt, the draft takes its own guess for the first token
and drafts behind it. If the target says the same, its first call already has drafts to verify; if
not, the draft forgets the window and starts over.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.base import Drafter
from vidcap.engine.logits import LogitsStack
from vidcap.engine.round import Accepted, Proposal


class StartupDrafter:
    """A drafter that has its first proposal ready."""

    def __init__(self, decoder: Decoder, make: Callable[[], Drafter], stack: LogitsStack):
        """Drafts the window.

        Args:
            decoder: the draft model with the question appended.
            make: a new drafter on that decoder.
            stack: the request's logits stack.
        """
        if decoder.last_hidden is None:
            raise ValueError("the draft has not seen a question")
        self._decoder = decoder
        self._make = make
        self._length = decoder.kv.length
        self._guess = self._first_choice(decoder, decoder.last_hidden, stack)
        self._drafter = make()
        self._window: Proposal | None = self._drafter.propose(self._guess)

    def propose(self, root: Tensor) -> Proposal:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        window, self._window = self._window, None
        if window is None:
            return self._drafter.propose(root)
        if torch.equal(root, self._guess):
            return window
        return self._start_over().propose(root)

    def commit(self, proposal: Proposal, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        self._drafter.commit(proposal, accepted)

    def skip(self, root: Tensor, accepted: Accepted) -> None:
        """See :class:`vidcap.engine.draft.base.Drafter`."""
        if self._window is not None:
            self._window = None
            self._start_over()
        self._drafter.skip(root, accepted)

    def _start_over(self) -> Drafter:
        self._decoder.kv.rewind(self._length)
        self._drafter = self._make()
        return self._drafter

    @staticmethod
    def _first_choice(decoder: Decoder, hidden: Tensor, stack: LogitsStack) -> Tensor:
        """Long[b, 1] what the draft says after the question."""
        logits = decoder.model.logits(hidden).to(stack.device)
        alone = torch.ones(logits.shape[0], 1, 1, dtype=torch.bool, device=stack.device)
        return stack.process(logits, stack.last_prompt_id, alone).argmax(-1)
