"""How much each visual token matters to the target, from what its prefill leaves behind."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor
from torch.nn import functional

from vidcap.engine.probe import Needs, Probe
from vidcap.errors import UsageError


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
    layers telescopes to the difference between layer L and the embedding, and with unit vectors the
    sum over text tokens is a product with their sum: two matrix-vector products in all.
    """

    def __init__(self, layer: int):
        """Args: layer: L, an early decoder layer; the states that enter it are compared."""
        self.layer = layer
        self.prefix_needs = Needs(visual_inputs=frozenset({0, layer}))
        self.suffix_needs = Needs(layer_inputs=frozenset({0, layer}))

    def score(self, probes: PrefillProbes) -> Tensor:
        """See :class:`Scorer`."""
        return self._similarity(probes, self.layer) - self._similarity(probes, 0)

    @staticmethod
    def _similarity(probes: PrefillProbes, layer: int) -> Tensor:
        """[b, m] sum over text tokens of the cosine with each visual token."""
        visual = probes.prefix.layer_inputs[layer].float()
        text = probes.suffix.layer_inputs[layer].float()
        towards = functional.normalize(text, dim=-1).sum(1, keepdim=True)
        return (functional.normalize(visual, dim=-1) * towards).sum(-1)


def uv_layer(layers: int) -> int:
    """Default L for a model of `layers` decoder layers: a quarter of the depth, rounded up."""
    return math.ceil(0.25 * layers)


def make_scorer(name: str, layers: int, layer: int | None = None) -> Scorer | None:
    """The scorer `name` for a target with `layers` decoder layers.

    Args:
        name: ``attention`` or ``uv``; ``uniform`` and ``random`` look at no score.
        layer: L of UV-Prune, None for the default.

    Raises:
        UsageError: the target has no layer L.
    """
    if layer is not None and layer >= layers:
        raise UsageError(f"uv-layer {layer} is none of the target's layers 1 to {layers - 1}")
    if name == "attention":
        return AttentionScorer()
    if name == "uv":
        return UVScorer(layer if layer is not None else uv_layer(layers))
    return None
