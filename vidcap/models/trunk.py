"""Parts of a vision tower that step aside where another tower has computed their states.

In front of the merger nothing is left to compute then: the embedding and the blocks of the trunk
hand through what they get, and the merger takes the other tower's states. Which states these are is
known per thread, so that a call in another thread runs the tower itself.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class TowerNames:
    """What a family calls the parts of its vision tower, ``model.visual``.

    Attributes:
        mergers: what brings features to the width of the text model.
        width: the entry of the tower's configuration that holds this width.
        embed, blocks: the trunk's parts that take time.
        pixels: the argument of the forward that only the trunk looks at.
    """

    mergers: tuple[str, ...] = ("merger",)
    width: str = "out_hidden_size"
    embed: str = "patch_embed"
    blocks: str = "blocks"
    pixels: str = "pixel_values_videos"


@dataclass(frozen=True, slots=True)
class Trunk:
    """What the target's tower computed for a video.

    Attributes:
        patches: rows of the trunk's states.
        tensors: for each merger its input [patches, width], or its output where that is shared.
    """

    patches: int
    tensors: tuple[Tensor, ...]


class Handed(threading.local):
    """The states that a thread's call of the draft's tower shall use, None for its own."""

    trunk: Trunk | None = None


class TrunkEmbedding(nn.Module):
    """Stands in front of the trunk: with states of the target, only the number of rows counts."""

    def __init__(self, own: nn.Module, handed: Handed):
        super().__init__()
        self.own = own
        self._handed = handed

    def forward(self, pixels: Tensor) -> Tensor:
        """[patches, width], or [patches, 1] that nobody looks at."""
        trunk = self._handed.trunk
        if trunk is None:
            embedded: Tensor = self.own(pixels)
            return embedded
        return trunk.tensors[0].new_zeros(trunk.patches, 1)


class TrunkBlock(nn.Module):
    """A block of the trunk, passed over where there are states of the target."""

    def __init__(self, own: nn.Module, handed: Handed):
        super().__init__()
        self.own = own
        self._handed = handed

    def forward(self, hidden_states: Tensor, **arguments: Any) -> Tensor:
        """[patches, width]."""
        if self._handed.trunk is not None:
            return hidden_states
        states: Tensor = self.own(hidden_states, **arguments)
        return states


class TrunkMerger(nn.Module):
    """A merger that takes states of the target, or its features, where there are any."""

    def __init__(self, own: nn.Module, handed: Handed, index: int, *, whole: bool):
        super().__init__()
        self.own = own
        self._handed = handed
        self._index = index
        self._whole = whole

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Features [visual tokens, width of the text model]."""
        trunk = self._handed.trunk
        given = hidden_states if trunk is None else trunk.tensors[self._index]
        if trunk is not None and self._whole:
            return given
        features: Tensor = self.own(given)
        return features
