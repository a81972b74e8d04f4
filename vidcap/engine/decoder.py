"""One model with its keys and values: prefill, append, run a tree, commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from vidcap.engine.attention import AttentionStep
from vidcap.engine.kv import KVCache
from vidcap.engine.model import EncodedPrefix, LanguageModel
from vidcap.engine.positions import text_positions
from vidcap.engine.probe import Needs, Probe
from vidcap.engine.step import TargetStep
from vidcap.engine.tree import Tree
from vidcap.engine.verify.base import Accepted


class Decoder:
    """A model and the state of one sequence in it; target and draft are both one of these."""

    def __init__(self, model: LanguageModel, prefix: EncodedPrefix, kv: KVCache):
        self.model = model
        self.prefix = prefix
        self.kv = kv
        self._planes = prefix.position_ids.shape[0] if prefix.position_ids.dim() == 3 else 1

    @staticmethod
    def prefill(model: LanguageModel, prefix: EncodedPrefix, probe: Probe | None = None) -> Decoder:
        """Run the prefix through the model once and freeze its keys and values."""
        kv = KVCache(model.kv_spec, prefix.ids.shape[0], tail_rows=1)
        step = AttentionStep(kv, probe=probe)
        hidden = model.forward(prefix.embeds, prefix.position_ids, step)
        if probe is not None and probe.needs.visual_output:
            probe.visual_output = hidden.index_select(1, prefix.visual_index)
        # From here on only ids and positions are needed: the embeddings weigh as much as a layer.
        return Decoder(model, replace(prefix, embeds=prefix.embeds[:, :0]), kv)

    def fork(self, tail_rows: int) -> Decoder:
        """A decoder on the same prefix with an empty tail of at least `tail_rows` rows."""
        return Decoder(self.model, self.prefix, self.kv.fork(tail_rows))

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
        return hidden

    def run(
        self,
        ids: Tensor,
        depths: Tensor,
        mask: Tensor,
        offset: int = 0,
        probe: Probe | None = None,
    ) -> Tensor:
        """Run tree nodes without committing them.

        Args:
            ids: Long[b, q] tokens of the nodes.
            depths: Long[b, q]; a node's position is the committed length + its depth.
            mask: bool[b, q, offset + q] which uncommitted rows each node sees, itself included.
                The first `offset` columns are rows that earlier calls of this round wrote.
            offset: uncommitted rows already written; this call writes behind them.
            probe: collects what was asked for.

        Returns:
            last hidden states [b, q, d].
        """
        device = self.kv.spec.device
        length, count = self.kv.length, ids.shape[1]
        begin = length + offset
        if begin + count > self.kv.capacity:
            raise ValueError(f"{begin + count} rows in a tail of {self.kv.capacity}")
        step = AttentionStep(
            kv=self.kv,
            slots=torch.arange(begin, begin + count, device=device),
            rows=begin + count,
            bias=self._bias(mask.to(device)),
            probe=probe,
        )
        positions = text_positions(
            self.prefix.suffix_start, depths.to(device) + length, self._planes
        )
        return self.model.forward(self.model.embed(ids.to(device)), positions, step)

    def commit(self, rows: Sequence[int]) -> None:
        """Keep these uncommitted rows, in order, and forget the others."""
        self.kv.commit(rows)

    def _bias(self, mask: Tensor) -> Tensor | None:
        batch, count, columns = mask.shape
        if count == 1 and columns == 1:
            return None
        dtype, length = self.kv.spec.dtype, self.kv.length
        bias = torch.zeros(batch, 1, count, length + columns, dtype=dtype, device=mask.device)
        bias[:, 0, :, length:].masked_fill_(~mask, -torch.inf)
        return bias.repeat(1, 1, self.kv.spec.group, 1)


_MASS = Needs(visual_mass=True)


def _text_columns(prefix: EncodedPrefix) -> Tensor:
    """Long[P - m] columns of the prefix that are not visual."""
    text = torch.ones(prefix.length, dtype=torch.bool, device=prefix.ids.device)
    text[prefix.visual_index] = False
    return text.nonzero().flatten()


class TargetDecoder:
    """The target behind its prompt, as the loop drives it."""

    def __init__(
        self,
        decoder: Decoder,
        suffix_ids: Tensor,
        probe: Probe | None = None,
        *,
        visual_mass: bool = False,
    ):
        """Runs the question.

        Args:
            decoder: the target behind the frozen prefix.
            suffix_ids: Long[b, n] prompt tokens behind the last visual token, n at least 1.
            probe: collects what was asked for of this pass.
            visual_mass: whether steps shall say how much of the attention is on the video.
        """
        self._decoder = decoder
        self._last_hidden = decoder.append(suffix_ids, probe)[:, -1:]
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
