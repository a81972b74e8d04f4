"""Where a drafting decoder comes from: another model with its own video, or the target itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.kv import KVCache
from vidcap.engine.model import EncodedPrefix, LanguageModel


class DraftSource(Protocol):
    """Makes the drafting decoder of a question."""

    def decoder(
        self, target: Decoder, suffix_ids: Tensor, kept: Tensor | None, *, compact: bool, rows: int
    ) -> Decoder:
        """A decoder behind prompt and question.

        Args:
            target: the target behind the same prompt and question.
            suffix_ids: Long[b, n] the question.
            kept: Long[k] ranks of the visual tokens that the draft sees, None for all.
            compact: number the kept tokens without gaps instead of leaving their positions.
            rows: tail rows to provide.
        """
        ...


class PairSource:
    """A smaller model with its own vision tower; its prefill is kept while `kept` is the same."""

    def __init__(self, model: LanguageModel, prefix: EncodedPrefix | None):
        """Args:
        model: the draft.
        prefix: the whole video, encoded by the draft's own vision tower; None where the draft
            never sees any of it.
        """
        self._model = model
        self._prefix = prefix
        self._base: Decoder | None = None
        self._base_key: tuple[tuple[int, ...] | None, bool] | None = None

    def decoder(
        self, target: Decoder, suffix_ids: Tensor, kept: Tensor | None, *, compact: bool, rows: int
    ) -> Decoder:
        """See :class:`DraftSource`."""
        key = (None if kept is None else tuple(kept.tolist()), compact)
        if self._base is None or self._base_key != key:
            prefix = self._prefix or self._blind(target.prefix)
            if kept is not None:
                prefix = prefix.keep(kept, compact=compact)
            self._base, self._base_key = Decoder.prefill(self._model, prefix), key
        decoder = self._base.fork(rows)
        decoder.append(suffix_ids.to(decoder.kv.spec.device))
        return decoder

    def _blind(self, target: EncodedPrefix) -> EncodedPrefix:
        """The target's prefix with the draft's text embeddings, for a draft without any video."""
        device = self._model.kv_spec.device
        ids = target.ids.to(device)
        return replace(
            target,
            ids=ids,
            embeds=self._model.embed(ids),
            position_ids=target.position_ids.to(device),
            visual_index=target.visual_index.to(device),
        )


class SelfSource:
    """The target drafts for itself on fewer visual tokens: rows gathered, nothing recomputed.

    Kept rows stay as they were computed with the whole video around them, positions included.
    """

    def decoder(
        self, target: Decoder, suffix_ids: Tensor, kept: Tensor | None, *, compact: bool, rows: int
    ) -> Decoder:
        """See :class:`DraftSource`."""
        if compact:
            raise ValueError("gathered rows keep their positions: compact ids need a prefill")
        kv = KVCache(target.kv.spec, suffix_ids.shape[0], rows)
        kv.prefix = target.kv.prefix
        if kept is not None:
            columns = target.prefix.columns_of(kept)
            kv.prefix = [
                (key.index_select(2, columns), value.index_select(2, columns))
                for key, value in target.kv.prefix
            ]
        length = target.kv.length
        kv.tail[..., :length, :] = target.kv.tail[..., :length, :]
        kv.append_committed(length)
        return Decoder(target.model, target.prefix, kv)
