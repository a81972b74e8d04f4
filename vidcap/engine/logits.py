"""One logits stack for every arm: plain and speculative decoding, target and draft.

What transformers' ``generate`` would do to the scores (casting to float32, a repetition penalty,
suppressed tokens) happens here and nowhere else. The repetition penalty depends on the history,
and in a tree every node has its own: all prompt ids (visual placeholders and the question
included), the committed tokens, and the node's own path.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class LogitsSettings:
    """Attributes:
    vocab_size: number of real token ids; columns of padded vocabularies beyond it are cut off.
    suppress: ids that are never emitted (visual placeholders).
    repetition_penalty: 1.0 for none.
    """

    vocab_size: int
    suppress: tuple[int, ...] = ()
    repetition_penalty: float = 1.0


class LogitsStack:
    """The processors of one request, with the history they depend on."""

    def __init__(self, settings: LogitsSettings, prompt_ids: Tensor):
        """Args:
        settings: what to do to the scores.
        prompt_ids: Long[b, n], every id of the prompt.
        """
        self.settings = settings
        self.device = prompt_ids.device
        self.last_prompt_id = prompt_ids[:, -1:]
        device, vocab = prompt_ids.device, settings.vocab_size
        self._bias: Tensor | None = None
        if settings.suppress:
            self._bias = torch.zeros(vocab, device=device)
            self._bias[list(settings.suppress)] = -torch.inf
        self._seen: Tensor | None = None
        if settings.repetition_penalty != 1.0:
            self._seen = torch.zeros(prompt_ids.shape[0], vocab, dtype=torch.bool, device=device)
            self.commit(prompt_ids)

    @property
    def looks_back(self) -> bool:
        """Whether scores depend on the tokens before."""
        return self._seen is not None

    def commit(self, tokens: Tensor) -> None:
        """Add committed tokens (Long[b, n]) to the history."""
        if self._seen is not None:
            self._seen.scatter_(1, tokens.to(self.device), True)

    def process(self, logits: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
        """Scores from logits.

        Args:
            logits: [b, q, V'] with V' at least vocab_size.
            tokens: Long[b, n] tokens of a tree that are not in the committed history.
            mask: bool[b, q, n] which of them lie on the path of each row, the row's own token
                included; every row has at least one.

        Returns:
            float32 [b, q, vocab_size].
        """
        scores = logits[..., : self.settings.vocab_size].float()
        if self._seen is not None:
            penalty = self.settings.repetition_penalty
            seen = self._path_history(tokens, mask)
            penalised = torch.where(scores < 0, scores * penalty, scores / penalty)
            scores = torch.where(seen, penalised, scores)
        if self._bias is not None:
            scores = scores + self._bias.to(scores.device)
        return scores

    def _path_history(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """bool[b, q, vocab]: ids in the committed history or on the row's path."""
        seen = self._seen
        if seen is None:
            raise ValueError("no history is kept without a repetition penalty")
        batch, rows, _ = mask.shape
        device = tokens.device
        # Columns off the path point at a token that is on it, so that they add nothing.
        own = mask.to(torch.int8).argmax(-1, keepdim=True)
        every = tokens[:, None, :].expand(mask.shape)
        on_path = torch.where(mask, every, every.gather(2, own))
        history = seen.to(device)[:, None, :].expand(batch, rows, -1).clone()
        return history.scatter_(2, on_path, True)
