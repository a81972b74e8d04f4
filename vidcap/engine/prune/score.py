"""How much each visual token matters to the target, from what its prefill leaves behind."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from vidcap.engine.probe import Needs, Probe
from vidcap.errors import UsageError
from vidcap.settings import SpeculationSettings


@dataclass(frozen=True, slots=True)
class PrefillProbes:
    """Probes of the target's prefill.

    Attributes:
        prefix: of the pass over the prefix.
        suffix: of the pass over the question.
    """

    prefix: Probe
    suffix: Probe


class Scorer(Protocol):
    """Scores visual tokens; declares what it needs of the target's two prefill passes."""

    @property
    def prefix_needs(self) -> Needs:
        """What to collect over the prefix."""
        ...

    @property
    def suffix_needs(self) -> Needs:
        """What to collect over the question."""
        ...

    def score(self, probes: PrefillProbes) -> Tensor:
        """float32 [b, m]; higher matters more."""
        ...


class AttentionScorer:
    """SpecVLM's score (arXiv 2508.16201): attention that the question pays to a visual token.

    Mean over layers, heads and question rows of the softmax over all keys.
    """

    prefix_needs = Needs()
    suffix_needs = Needs(visual_attention=True)

    def score(self, probes: PrefillProbes) -> Tensor:
        """See :class:`Scorer`."""
        return probes.suffix.mean_attention()


class UVScorer:
    """UV-Prune (ParallelVLM, arXiv 2603.19610): how far the question moves towards a visual token.

    The published score sums cosine differences over early layers and text tokens. The sum over
    layers telescopes to the difference between layer L and the one that the sum starts from, and
    with unit vectors the sum over text tokens is a product with their sum: two matrix-vector
    products in all. The paper leaves open which layers and which text; the defaults are the
    embeddings, a quarter of the depth, and the text behind the video, which alone has seen it.
    """

    def __init__(self, layer: int, base: int = 0, *, whole_prompt: bool = False):
        """Args:
        layer: L, an early decoder layer; the states that enter it are compared.
        base: the layer below it that the sum starts from, 0 for the embeddings.
        whole_prompt: whether text in front of the video counts as well.
        """
        self.layer = layer
        self._base = base
        self._whole_prompt = whole_prompt
        layers = frozenset({base, layer})
        self.prefix_needs = (
            Needs(layer_inputs=layers) if whole_prompt else Needs(visual_inputs=layers)
        )
        self.suffix_needs = Needs(layer_inputs=layers)

    def score(self, probes: PrefillProbes) -> Tensor:
        """See :class:`Scorer`."""
        return self._similarity(probes, self.layer) - self._similarity(probes, self._base)

    def _similarity(self, probes: PrefillProbes, layer: int) -> Tensor:
        """[b, m] sum over text tokens of the cosine with each visual token."""
        visual = probes.prefix.layer_inputs[layer].float()
        text = probes.suffix.layer_inputs[layer].float()
        if self._whole_prompt:
            columns = probes.prefix.columns
            shows = torch.zeros(visual.shape[1], dtype=torch.bool, device=visual.device)
            shows[columns] = True
            text = torch.cat([visual[:, ~shows], text], dim=1)
            visual = visual.index_select(1, columns)
        towards = functional.normalize(text, dim=-1).sum(1, keepdim=True)
        return (functional.normalize(visual, dim=-1) * towards).sum(-1)


def uv_layer(layers: int) -> int:
    """Default L for a model of `layers` decoder layers: a quarter of the depth, rounded up."""
    return math.ceil(0.25 * layers)


def make_scorer(settings: SpeculationSettings, layers: int) -> Scorer | None:
    """The scorer of a method for a target with `layers` decoder layers.

    Returns:
        None where no score is looked at (``uniform`` and ``random``).

    Raises:
        UsageError: the target has no such layers.
    """
    if settings.prune_by == "attention":
        return AttentionScorer()
    if settings.prune_by != "uv":
        return None
    layer = settings.uv_layer if settings.uv_layer is not None else uv_layer(layers)
    if layer >= layers:
        raise UsageError(f"uv-layer {layer} is none of the target's layers 1 to {layers - 1}")
    if settings.uv_base >= layer:
        raise UsageError(f"uv-base {settings.uv_base} is not below uv-layer {layer}")
    return UVScorer(layer, settings.uv_base, whole_prompt=settings.uv_text == "prompt")
