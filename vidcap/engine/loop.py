"""The loop: draft, verify, accept, commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from vidcap.engine.draft.base import Drafter
from vidcap.engine.logits import LogitsStack
from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.stats import Stats
from vidcap.engine.step import TargetStep
from vidcap.engine.tree import ROOT_ONLY, Tree
from vidcap.engine.verify.base import Verifier

FinishReason = Literal["stop", "length", "interrupted"]


class Target(Protocol):
    """The model that has the last word, behind its prompt."""

    def prompt_step(self) -> TargetStep:
        """The pass over the prompt, at its last token."""
        ...

    def verify(self, tree: Tree) -> TargetStep:
        """Run every node of a tree in one forward pass."""
        ...

    def commit(self, accepted: Accepted) -> None:
        """Keep the accepted nodes."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop: after `max_tokens` tokens, or with the first of `stop_ids` (it is emitted)."""

    max_tokens: int
    stop_ids: frozenset[int] = frozenset()

    def cut(
        self, tokens: tuple[int, ...], generated: int
    ) -> tuple[tuple[int, ...], FinishReason | None]:
        """The tokens that count after `generated` earlier ones, and why to stop, if at all."""
        room = self.max_tokens - generated
        for index, token in enumerate(tokens[:room]):
            if token in self.stop_ids:
                return tokens[: index + 1], "stop"
        return tokens[:room], "length" if len(tokens) >= room else None


@dataclass(slots=True)
class Generation:
    """A running generation; iterate over it to get the accepted tokens, round by round.

    ``make_drafter`` is called after the first token, so that the first word does not wait for the
    draft's prefill. ``finish_reason`` is None while it runs, then ``stop``, ``length`` or
    ``interrupted``.
    """

    target: Target
    make_drafter: Callable[[], Drafter]
    verifier: Verifier
    stack: LogitsStack
    limits: Limits
    stats: Stats
    should_stop: Callable[[], bool] = lambda: False
    finish_reason: FinishReason | None = None

    @torch.inference_mode()
    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Yields the new tokens of each round; the very first token comes from the prompt alone."""
        tokens = self._take(self._first())
        yield tokens
        if self.finish_reason is not None:
            return
        drafter = self.make_drafter()
        while self.finish_reason is None:
            if self.should_stop():
                self.finish_reason = "interrupted"
                return
            with self.stats.timer("decode", "round"):
                tokens = self._round(drafter, tokens[-1])
            yield tokens

    def _round(self, drafter: Drafter, newest: int) -> tuple[int, ...]:
        with self.stats.timer("draft"):
            proposal = drafter.propose(self._row(newest))
        with self.stats.timer("verify"):
            step = self.target.verify(proposal.tree)
            accepted = self._judge(proposal, step)
        if step.visual_mass is not None:
            self.stats.visual_mass = float(step.visual_mass[0, accepted.nodes[-1]])
        tokens = self._take(accepted.tokens)
        self.stats.count_round(proposal.drafted, min(len(accepted.tokens) - 1, len(tokens)))
        self.stats.loosened += sum(at < len(tokens) for at in accepted.loosened)
        with self.stats.timer("commit"):
            self.target.commit(accepted)
            drafter.commit(proposal, accepted)
        return tokens

    def _first(self) -> tuple[int, ...]:
        # The prompt's last token plays the root: it is in the history already.
        proposal = Proposal(ROOT_ONLY.with_tokens(self.stack.last_prompt_id))
        return self._judge(proposal, self.target.prompt_step()).tokens

    def _judge(self, proposal: Proposal, step: TargetStep) -> Accepted:
        scores = self.stack.process(step.logits, proposal.tree.tokens, proposal.tree.mask)
        return self.verifier.judge(proposal, scores, step)

    def _take(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        kept, self.finish_reason = self.limits.cut(tokens, self.stats.generated)
        self.stats.generated += len(kept)
        self.stack.commit(self._row(*kept))
        return kept

    def _row(self, *tokens: int) -> Tensor:
        return torch.tensor([tokens], device=self.stack.device)
