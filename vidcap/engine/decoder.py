"""One model with its keys and values: prefill, append, run a tree, commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from vidcap.engine.attention import AttentionStep
from vidcap.engine.chunks import prefill_chunks
from vidcap.engine.kv import KVCache
from vidcap.engine.model import EncodedPrefix, LanguageModel
from vidcap.engine.positions import text_positions
from vidcap.engine.probe import Needs, Probe
from vidcap.engine.round import Accepted
from vidcap.engine.step import TargetStep
from vidcap.engine.tree import Tree


class Decoder:
    """A model and the state of one sequence in it; target and draft are both one of these.

    Attributes:
        model, prefix, kv: what runs, behind which prompt, with which keys and values.
        last_hidden: [b, 1, d] state of the newest appended token, None before the first.
    """

    def __init__(self, model: LanguageModel, prefix: EncodedPrefix, kv: KVCache):
        self.model = model
        self.prefix = prefix
        self.kv = kv
        self.last_hidden: Tensor | None = None
        self._planes = prefix.position_ids.shape[0] if prefix.position_ids.dim() == 3 else 1

    @staticmethod
    def prefill(
        model: LanguageModel,
        prefix: EncodedPrefix,
        probe: Probe | None = None,
        on_layer: Callable[[int], None] | None = None,
        chunk: int = 0,
    ) -> Decoder:
        """Run the prefix through the model once and freeze its keys and values.

        Args:
            model: what runs.
            prefix: with its embeddings.
            probe: collects what was asked for.
            on_layer: see :class:`vidcap.engine.attention.AttentionStep`.
            chunk: most rows of a call, 0 for all of them in one.
        """
        if 0 < chunk < prefix.length:
            kv = prefill_chunks(model, prefix, chunk, probe, on_layer)
            return Decoder(model, prefix.without_inputs(), kv)
        kv = KVCache(model.kv_spec, prefix.ids.shape[0], tail_rows=1)
        step = AttentionStep(
            kv,
            probe=probe,
            deepstack=prefix.layer_features,
            on_layer=on_layer,
            keys_only=probe is None or not probe.needs.visual_output,
        )
        hidden = model.forward(prefix.embeds, prefix.position_ids, step)
        _keep_visual_output(probe, hidden, prefix)
        return Decoder(model, prefix.without_inputs(), kv)

    @staticmethod
    def prefill_with_question(
        model: LanguageModel,
        prefix: EncodedPrefix,
        suffix_ids: Tensor,
        rows: int,
        probe: Probe | None = None,
        on_layer: Callable[[int], None] | None = None,
    ) -> Decoder:
        """Run the prefix and a question behind it through the model in one pass.

        The result is that of :meth:`prefill`, :meth:`fork` and :meth:`append`, but layer by layer
        for both, so that what an early layer says about the two is known early.

        Args:
            model, prefix, probe, on_layer: as for :meth:`prefill`.
            suffix_ids: Long[b, n] the question, committed.
            rows: rows of the tail to provide, the question's included.
        """
        spec, batch = model.kv_spec, prefix.ids.shape[0]
        kv = KVCache(spec, batch, rows, spec.lead(batch, prefix.length))
        decoder, count = Decoder(model, prefix.without_inputs(), kv), suffix_ids.shape[1]
        step = AttentionStep(
            kv,
            probe=probe,
            deepstack=prefix.layer_features,
            prefix_rows=prefix.length,
            on_layer=on_layer,
        )
        order = torch.arange(count, device=suffix_ids.device)[None]
        positions = torch.cat([prefix.position_ids, decoder._text_positions(order)], dim=-1)
        embeds = torch.cat([prefix.embeds, model.embed(suffix_ids)], dim=1)
        hidden = model.forward(embeds, positions, step)
        _keep_visual_output(probe, hidden, prefix)
        kv.append_committed(count)
        decoder.last_hidden = hidden[:, -1:].clone()
        return decoder

    def fork(self, tail_rows: int) -> Decoder:
        """A decoder on the same prefix with an empty tail of at least `tail_rows` rows."""
        return Decoder(self.model, self.prefix, self.kv.fork(tail_rows))

    def prompt_only(self) -> Decoder:
        """A decoder on the same prefix that is kept to be forked: no copies, hardly a tail."""
        kv = KVCache(self.kv.spec, self.prefix.ids.shape[0], tail_rows=1)
        kv.share_prefix(self.kv)
        return Decoder(self.model, self.prefix, kv)

    def append(self, ids: Tensor, probe: Probe | None = None) -> Tensor:
        """Run Long[b, n] text ids behind the committed rows and commit them.

        Returns:
            last hidden states [b, n, d].
        """
        count = ids.shape[1]
        order = torch.arange(count, device=ids.device)
        mask = order[:, None] >= order[None, :]
        hidden = self.run(ids, order[None], mask[None], probe=probe)
        self.kv.append_committed(count)
        self.last_hidden = hidden[:, -1:]
        return hidden

    def run(
        self,
        ids: Tensor,
        depths: Tensor,
        mask: Tensor | None,
        offset: int = 0,
        probe: Probe | None = None,
    ) -> Tensor:
        """Run tree nodes without committing them.

        Args:
            ids: Long[b, q] tokens of the nodes.
            depths: Long[b, q]; a node's position is the committed length + its depth.
            mask: bool[b, q, offset + q] which uncommitted rows each node sees, itself included.
                The first `offset` columns are rows that earlier calls of this round wrote. None
                where all of them are seen.
            offset: uncommitted rows already written; this call writes behind them.
            probe: collects what was asked for.

        Returns:
            last hidden states [b, q, d].
        """
        device = self.kv.spec.device
        length, count = self.kv.length, ids.shape[1]
        begin, first = length + offset, self.prefix.suffix_start
        if begin + count > self.kv.capacity:
            raise ValueError(f"{begin + count} rows in a tail of {self.kv.capacity}")
        # A probe asks about the prefix as a whole.
        lead = self.kv.lead_for(count) if probe is None else 0
        step = AttentionStep(
            kv=self.kv,
            first=begin,
            rows=begin + count,
            lead=lead,
            bias=self._bias(mask, lead),
            probe=probe,
            positions=range(first, first + self.kv.capacity),
        )
        positions = self._text_positions(depths.to(device) + length)
        return self.model.forward(self.model.embed(ids.to(device)), positions, step)

    def commit(self, rows: Sequence[int]) -> None:
        """Keep these uncommitted rows, in order, and forget the others."""
        self.kv.commit(rows)

    def _text_positions(self, offsets: Tensor) -> Tensor:
        """Position ids of text `offsets` (Long[b, n]) tokens behind the prefix."""
        return text_positions(self.prefix.suffix_start, offsets, self._planes)

    def _bias(self, mask: Tensor | None, lead: int) -> Tensor | None:
        if mask is None or mask.shape[1:] == (1, 1):
            return None
        spec, before = self.kv.spec, lead + self.kv.length
        batch, count, columns = mask.shape
        shape = (batch, spec.group, count, before + columns)
        bias = torch.zeros(shape, dtype=spec.dtype, device=spec.device)
        hidden = ~mask.to(spec.device)
        bias[..., before:].masked_fill_(hidden.unsqueeze(1), -torch.inf)
        return bias.view(batch, 1, spec.group * count, before + columns)


def _keep_visual_output(probe: Probe | None, hidden: Tensor, prefix: EncodedPrefix) -> None:
    if probe is not None and probe.needs.visual_output:
        probe.visual_output = hidden.index_select(1, prefix.visual_index)


_MASS = Needs(visual_mass=True)


def _text_columns(prefix: EncodedPrefix) -> Tensor:
    """Long[P - m] columns of the prefix that are not visual."""
    text = torch.ones(prefix.length, dtype=torch.bool, device=prefix.ids.device)
    text[prefix.visual_index] = False
    return text.nonzero().flatten()


class TargetDecoder:
    """The target behind its prompt, as the loop drives it."""

    def __init__(self, decoder: Decoder, *, visual_mass: bool = False):
        """Args:
        decoder: the target with the question appended.
        visual_mass: whether steps shall say how much of the attention is on the video.
        """
        if decoder.last_hidden is None:
            raise ValueError("the target has not seen a question")
        self._decoder = decoder
        self._last_hidden = decoder.last_hidden
        self._text_columns = _text_columns(decoder.prefix) if visual_mass else None

    def prompt_step(self) -> TargetStep:
        """The pass over the question, at its last token."""
        return self._step(self._last_hidden)

    def verify(self, tree: Tree) -> TargetStep:
        """Run every node; no host synchronisation."""
        probe = None
        if self._text_columns is not None:
            visual = self._decoder.prefix.visual_index
            probe = Probe(_MASS, visual, text_columns=self._text_columns)
        hidden = self._decoder.run(tree.tokens, tree.depths, tree.mask, probe=probe)
        return self._step(hidden, probe.mean_mass(tree.size) if probe is not None else None)

    def _step(self, hidden: Tensor, mass: Tensor | None = None) -> TargetStep:
        return TargetStep(self._decoder.model.logits(hidden), hidden, mass)

    def commit(self, accepted: Accepted) -> None:
        """Keep the rows of the accepted nodes."""
        self._decoder.commit(accepted.nodes)
