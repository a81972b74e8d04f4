"""A prompt prefix prefilled in pieces, so that fewer rows are in flight at once.

What a layer holds beside keys and values (queries, rotated copies, the MLP's inner vectors) grows
with the rows of a call. In pieces it grows with the piece instead; the embeddings of the whole
prompt and its keys and values stay. A piece is a masked tail behind the rows that earlier pieces
have left (chunked prefill: Sarathi, arXiv 2308.16369), so the result is that of one call but for
rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from vidcap.engine.attention import AttentionStep, Deepstack
from vidcap.engine.kv import KVCache, KVSpec
from vidcap.engine.model import EncodedPrefix, LanguageModel
from vidcap.engine.probe import Probe


def prefill_chunks(
    model: LanguageModel,
    prefix: EncodedPrefix,
    rows: int,
    probe: Probe | None = None,
    on_layer: Callable[[int], None] | None = None,
) -> KVCache:
    """Run a prefix through a model, `rows` rows a call.

    Args:
        model: what runs.
        prefix: with its embeddings.
        rows: most rows of a call, at least 1.
        probe: collects what was asked for.
        on_layer: see :class:`vidcap.engine.attention.AttentionStep`.

    Returns:
        keys and values of the prefix, with a small empty tail.
    """
    spec, batch = model.kv_spec, prefix.ids.shape[0]
    kv, piece = KVCache(spec, batch, tail_rows=1), KVCache(spec, batch, rows)
    kv.reserve_prefix(prefix.length)
    parts: list[Probe] = []
    for begin in range(0, prefix.length, rows):
        end = min(begin + rows, prefix.length)
        inside = (prefix.visual_index >= begin) & (prefix.visual_index < end)
        columns = prefix.visual_index[inside] - begin
        if probe is not None:
            parts.append(Probe(probe.needs, columns))
        if begin:  # attention over no keys at all is nothing that a kernel can do
            piece.see_prefix(kv, begin)
        step = AttentionStep(
            piece,
            first=0,
            rows=end - begin,
            bias=_causal(end - begin, spec, batch),
            probe=parts[-1] if parts else None,
            deepstack=_features(prefix, inside, columns),
            on_layer=on_layer,
            visual=True,
            keys_only=probe is None or not probe.needs.visual_output,
        )
        _run(model, prefix, slice(begin, end), step)
        kv.take_piece(piece, begin, end)
    if probe is not None:
        _join(probe, parts)
    return kv


def _run(model: LanguageModel, prefix: EncodedPrefix, rows: slice, step: AttentionStep) -> None:
    hidden = model.forward(prefix.embeds[:, rows], prefix.position_ids[..., rows], step)
    probe = step.probe
    if probe is not None and probe.needs.visual_output:
        probe.visual_output = hidden.index_select(1, probe.columns)


def _causal(count: int, spec: KVSpec, batch: int) -> Tensor | None:
    """Additive mask [b, 1, group * count, count] of rows that see themselves and earlier ones."""
    if count == 1:
        return None
    full = torch.full((count, count), -torch.inf, dtype=spec.dtype, device=spec.device)
    return full.triu(1).repeat(spec.group, 1).expand(batch, 1, -1, -1)


def _features(prefix: EncodedPrefix, inside: Tensor, columns: Tensor) -> Deepstack | None:
    """Visual features of the rows of a piece."""
    if not prefix.deepstack or not len(columns):
        return None
    return Deepstack(columns, tuple(features[:, inside] for features in prefix.deepstack))


def _join(probe: Probe, parts: list[Probe]) -> None:
    """What the pieces have collected, as one call would have."""
    for layer in parts[0].layer_inputs:
        probe.layer_inputs[layer] = torch.cat([part.layer_inputs[layer] for part in parts], dim=1)
    outputs = [part.visual_output for part in parts if part.visual_output is not None]
    if outputs:
        probe.visual_output = torch.cat(outputs, dim=1)
