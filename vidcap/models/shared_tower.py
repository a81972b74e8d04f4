"""One run of the vision tower for two models that have the same one.

A draft is often made from its target, by dropping text layers or by training new ones behind frozen
vision. Then the towers differ at most in the part that brings features to the width of the text
model, the merger, and all that comes before, the trunk, would be computed twice over the same
frames. Where the trunks of a pair are equal, number for number, the draft takes over the target's
modules, and for each video the states that they computed.

No tower's forward is rewritten: in the draft, the modules of the trunk pass on what they are given
while there are states of the target, and its merger takes these. Without them the draft's tower
runs as ever.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vidcap.engine.model import EncodedPrefix
from vidcap.models.protocol import VideoInputs
from vidcap.models.trunk import (
    Handed,
    TowerNames,
    Trunk,
    TrunkBlock,
    TrunkEmbedding,
    TrunkMerger,
)
from vidcap.settings import PositionPolicy

if TYPE_CHECKING:
    from vidcap.models.adapter import ReleasedVideoModel

#: Entries of a tower's configuration that say nothing about what it computes.
_IDLE_CONFIG = frozenset({"_name_or_path", "transformers_version", "dtype", "architectures"})


class SharedTower:
    """The vision tower of a pair whose trunks are equal; see :func:`share_tower`.

    Attributes:
        whole: whether the mergers are equal, too, so that features are shared as they are.
    """

    def __init__(
        self, target: ReleasedVideoModel, draft: ReleasedVideoModel, names: TowerNames, whole: bool
    ):
        """Puts the target's trunk into the draft; the draft's own is given up."""
        self.whole = whole
        self._target = target
        self._draft = draft
        self._names = names
        self._handed = Handed()
        first, second = _tower(target), _tower(draft)
        self._mergers = _mergers(first, names)
        for name, part in list(first.named_children()):
            if name not in names.mergers:
                setattr(second, name, self._trunk_part(name, part))
        count = 0
        for name in names.mergers:
            own = getattr(first if whole else second, name)
            many = own if isinstance(own, nn.ModuleList) else [own]
            wrapped = [
                TrunkMerger(one, self._handed, count + at, whole=whole)
                for at, one in enumerate(many)
            ]
            count += len(wrapped)
            setattr(second, name, nn.ModuleList(wrapped) if many is own else wrapped[0])

    def open(self, inputs: VideoInputs, positions: PositionPolicy) -> SharedVideo:
        """A video for both models, preprocessed."""
        return SharedVideo(self, inputs, positions)

    def encode_target(
        self, inputs: VideoInputs, positions: PositionPolicy
    ) -> tuple[EncodedPrefix, Trunk]:
        """The target's prefix, and what its tower computed on the way."""
        with self._keeping() as kept:
            prefix = self._target.encode(inputs, positions)
        tensors = tuple(kept[index] for index in range(len(self._mergers)))
        return prefix, Trunk(len(inputs.tensors[self._names.pixels]), tensors)

    def encode_draft(
        self, inputs: VideoInputs, positions: PositionPolicy, trunk: Trunk
    ) -> EncodedPrefix:
        """The draft's prefix, from what the target's tower computed."""
        for tensor in trunk.tensors:
            if tensor.is_cuda:
                # They may have been made on another stream, and are let go of before this one ends.
                tensor.record_stream(torch.cuda.current_stream(tensor.device))
        self._handed.trunk = trunk
        try:
            return self._draft.encode(inputs, positions)
        finally:
            self._handed.trunk = None

    def without_pixels(self, inputs: VideoInputs) -> VideoInputs:
        """What is left to be known of a video whose trunk has run."""
        pixels = inputs.tensors[self._names.pixels]
        blank = {self._names.pixels: pixels.new_empty(len(pixels), 0)}
        return replace(inputs, tensors={**inputs.tensors, **blank})

    def _trunk_part(self, name: str, part: nn.Module) -> nn.Module:
        if name == self._names.embed:
            return TrunkEmbedding(part, self._handed)
        if name == self._names.blocks and isinstance(part, nn.ModuleList):
            return nn.ModuleList([TrunkBlock(block, self._handed) for block in part])
        return part

    @contextmanager
    def _keeping(self) -> Iterator[dict[int, Tensor]]:
        """Collects, by merger, what this thread's call of the target's tower shares."""
        thread, kept = threading.get_ident(), {}

        def keep(index: int, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            # Another thread's video in front of the same model is not this one.
            if threading.get_ident() == thread:
                kept[index] = output if self.whole else args[0]

        handles = [
            merger.register_forward_hook(partial(keep, index))
            for index, merger in enumerate(self._mergers)
        ]
        try:
            yield kept
        finally:
            for handle in handles:
                handle.remove()


class SharedVideo:
    """One video in front of both models of a pair; the target comes first, and each of them once.

    Holds the pixels until the target has seen them, and then its trunk's states until the draft has
    taken them over.
    """

    def __init__(self, tower: SharedTower, inputs: VideoInputs, positions: PositionPolicy):
        """Use :meth:`SharedTower.open`."""
        self._tower = tower
        self._inputs = inputs
        self._positions = positions
        self._trunk: Trunk | None = None

    def target(self) -> EncodedPrefix:
        """The target's prefix; runs the tower."""
        prefix, self._trunk = self._tower.encode_target(self._inputs, self._positions)
        self._inputs = self._tower.without_pixels(self._inputs)
        return prefix

    def draft(self) -> EncodedPrefix:
        """The draft's prefix; runs its merger at most.

        Raises:
            ValueError: the target's tower has not run, or the draft has had its states already.
        """
        trunk, self._trunk = self._trunk, None
        if trunk is None:
            raise ValueError("there are no states of the target's vision tower")
        return self._tower.encode_draft(self._inputs, self._positions, trunk)


def share_tower(target: ReleasedVideoModel, draft: ReleasedVideoModel) -> SharedTower | None:
    """Let a draft use the target's vision tower, where the two have the same trunk.

    That is: one family, one preprocessing, towers of one form but for the width of their features,
    on one device and in one number format, neither quantized nor kept elsewhere, and every weight
    in front of the mergers equal.

    Returns:
        None where they have not; nothing is changed then.
    """
    names = target.tower_names
    if names is None or type(target) is not type(draft):
        return None
    if any(model.checkpoint.quantization is not None for model in (target, draft)):
        return None
    first, second = _tower(target), _tower(draft)
    if type(first) is not type(second) or _form(first, names) != _form(second, names):
        return None
    if not _equal(_weights(first, names, trunk=True), _weights(second, names, trunk=True)):
        return None
    if target.preprocessing != draft.preprocessing:
        return None
    mergers = (_weights(tower, names, trunk=False) for tower in (first, second))
    return SharedTower(target, draft, names, whole=_equal(*mergers))


def _tower(model: ReleasedVideoModel) -> Any:
    return model.model.model.visual


def _mergers(tower: Any, names: TowerNames) -> list[nn.Module]:
    """All mergers in the order of their names."""
    found: list[nn.Module] = []
    for name in names.mergers:
        part = getattr(tower, name)
        found += part if isinstance(part, nn.ModuleList) else [part]
    return found


def _form(tower: Any, names: TowerNames) -> dict[str, Any]:
    """A tower's configuration as far as it decides what the trunk computes."""
    idle = _IDLE_CONFIG | {names.width}
    form = {key: value for key, value in tower.config.to_dict().items() if key not in idle}
    return {**form, "attention": tower.config._attn_implementation}


def _weights(tower: nn.Module, names: TowerNames, *, trunk: bool) -> dict[str, Tensor]:
    """Parameters and buffers of a tower's trunk, or of its mergers."""
    every = [*tower.named_parameters(), *tower.named_buffers()]
    return {
        name: tensor
        for name, tensor in every
        if (name.partition(".")[0] not in names.mergers) == trunk
    }


def _equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Whether tensors are the same, number for number; looks at their forms before."""
    if first.keys() != second.keys():
        return False
    pairs = [(tensor, second[name]) for name, tensor in first.items()]
    alike = all(
        one.shape == other.shape and one.dtype == other.dtype and one.device == other.device
        for one, other in pairs
    )
    elsewhere = any(one.is_meta for one, _ in pairs)
    return alike and not elsewhere and all(torch.equal(one, other) for one, other in pairs)
