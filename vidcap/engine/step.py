"""What one target call hands to the verifier."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class TargetStep:
    """A verification pass.

    Attributes:
        logits: [b, n, V] behind every node, in the model's dtype.
        hidden: [b, n, d] last hidden state of every node, after the final norm.
        visual_mass: [b, n] share of the last layer's attention that lies on visual tokens, mean
            over heads; None where nobody asked for it.
    """

    logits: Tensor
    hidden: Tensor
    visual_mass: Tensor | None = None
