"""The draft model behind one question, on as much of the video as somebody wants it to see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.draft.source import DraftSource
from vidcap.engine.model import EncodedPrefix
from vidcap.engine.prune.pruner import Pruner
from vidcap.engine.prune.score import PrefillProbes
from vidcap.engine.stats import Stats

#: The whole video, as much as the method's pruning leaves, or none of it.
View = Literal["full", "pruned", "text"]


@dataclass(slots=True)
class DraftViews:
    """Makes drafting decoders of one question.

    Attributes:
        source: of the draft model.
        pruner: chooses what the pruned view shows.
        prefix: the target's prompt prefix.
        suffix_ids: Long[b, n] the question.
        rows: tail rows that a decoder gets.
        compact: whether kept tokens are numbered without gaps.
        stats: told how much the draft saw, and how long its prefills took.
        probes: what the target's prefill handed over for the scores.
        target: the target behind the question, None where it is not there yet.
    """

    source: DraftSource
    pruner: Pruner
    prefix: EncodedPrefix
    suffix_ids: Tensor
    rows: int
    compact: bool
    stats: Stats
    probes: PrefillProbes
    target: Decoder | None = None

    def decoder(self, view: View = "pruned", apart_from: Sequence[str] = ()) -> Decoder:
        """The draft behind the question, prefilled unless an earlier question has done that.

        Args:
            view: how much of the video it sees.
            apart_from: stages that are being timed around this.
        """
        with self.stats.timer("draft_prefill", apart_from=apart_from):
            kept = self._kept(view)
            seen = len(self.prefix.visual_index) if kept is None else len(kept)
            self.stats.draft_visual = max(seen, self.stats.draft_visual or 0)
            return self.source.decoder(
                self.suffix_ids, kept, compact=self.compact, rows=self.rows, target=self.target
            )

    def _kept(self, view: View) -> Tensor | None:
        if view == "full":
            return None
        if view == "text":
            return self.prefix.visual_index[:0]
        return self.pruner.keep(self.prefix, self.probes)
