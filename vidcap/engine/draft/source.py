"""Where a drafting decoder comes from: another model with its own video, or the target itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from torch import Tensor

from vidcap.engine.decoder import Decoder
from vidcap.engine.kv import KVCache
from vidcap.engine.model import EncodedPrefix, LanguageModel


class DraftSource(Protocol):
    """Makes the drafting decoder of a question."""

    def decoder(
        self,
        suffix_ids: Tensor,
        kept: Tensor | None,
        *,
        compact: bool,
        rows: int,
        target: Decoder | None = None,
    ) -> Decoder:
        """A decoder behind prompt and question.

        Args:
            suffix_ids: Long[b, n] the question.
            kept: Long[k] ranks of the visual tokens that the draft sees, None for all.
            compact: number the kept tokens without gaps instead of leaving their positions.
            rows: tail rows to provide.
            target: the target behind the same prompt and question, None where it is not there yet.
        """
        ...


class PairSource:
    """A smaller model with its own vision tower.

    Prefills are kept, so that another question about the same visual tokens costs none.
    """

    def __init__(
        self,
        model: LanguageModel,
        target: EncodedPrefix,
        encode: Callable[[], EncodedPrefix],
        prefills: int = 1,
        on_layer: Callable[[int], None] | None = None,
        chunk: int = 0,
    ):
        """Args:
        model: the draft.
        target: the target's prompt prefix, for a draft that sees nothing of the video.
        encode: the whole video, encoded by the draft's own vision tower; called once, and only
            where the draft sees any of it.
        prefills: how many of the newest prefills are kept.
        on_layer: called in every layer of a prefill.
        chunk: most rows of a prefill's calls, 0 for one call.
        """
        self._model = model
        self._target = target
        self._encode = encode
        self._prefills = prefills
        self._on_layer = on_layer
        self._chunk = chunk
        self._prefix: EncodedPrefix | None = None
        self._bases: OrderedDict[tuple[tuple[int, ...] | None, bool], Decoder] = OrderedDict()

    def decoder(
        self,
        suffix_ids: Tensor,
        kept: Tensor | None,
        *,
        compact: bool,
        rows: int,
        target: Decoder | None = None,
    ) -> Decoder:
        """See :class:`DraftSource`."""
        decoder = self._base(kept, compact).fork(rows)
        decoder.append(suffix_ids.to(decoder.kv.spec.device))
        return decoder

    def _base(self, kept: Tensor | None, compact: bool) -> Decoder:
        key = (None if kept is None else tuple(kept.tolist()), compact)
        base = self._bases.get(key)
        if base is None:
            blind = kept is not None and not len(kept)
            prefix = self._blind() if blind else self._whole()
            if kept is not None:
                prefix = prefix.keep(kept, compact=compact)
            base = Decoder.prefill(self._model, prefix, on_layer=self._on_layer, chunk=self._chunk)
        self._bases[key] = base
        self._bases.move_to_end(key)
        while len(self._bases) > self._prefills:
            self._bases.popitem(last=False)
        return base

    def _whole(self) -> EncodedPrefix:
        """The whole video as the draft sees it."""
        if self._prefix is None:
            self._prefix = self._encode()
        return self._prefix

    def _blind(self) -> EncodedPrefix:
        """The target's prefix with the draft's text embeddings, for a draft without any video."""
        device = self._model.kv_spec.device
        ids = self._target.ids.to(device)
        return replace(
            self._target,
            ids=ids,
            embeds=self._model.embed(ids),
            position_ids=self._target.position_ids.to(device),
            visual_index=self._target.visual_index.to(device),
            deepstack=(),
        )


class SelfSource:
    """The target drafts for itself on fewer visual tokens: rows gathered, nothing recomputed.

    Kept rows stay as they were computed with the whole video around them, positions included.
    """

    def decoder(
        self,
        suffix_ids: Tensor,
        kept: Tensor | None,
        *,
        compact: bool,
        rows: int,
        target: Decoder | None = None,
    ) -> Decoder:
        """See :class:`DraftSource`."""
        if compact:
            raise ValueError("gathered rows keep their positions: compact ids need a prefill")
        if target is None:
            raise ValueError("self-drafting needs the target's rows")
        if kept is None:
            kv = target.kv.fork(rows)
        else:
            spec, batch = target.kv.spec, suffix_ids.shape[0]
            columns = target.prefix.columns_of(kept)
            kv = KVCache(spec, batch, rows, spec.lead(batch, len(columns)))
            kv.gather_prefix(target.kv, columns)
        kv.copy_committed(target.kv)
        return Decoder(target.model, target.prefix, kv)
