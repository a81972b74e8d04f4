"""Tiny pairs of which the draft has the target's vision tower, but for its merger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from tests.models.families import TARGET, Size, write_family
from vidcap.models.loading import LoadedPair, load_pair_folders
from vidcap.models.pair import find_pair
from vidcap.settings import ModelSettings

#: A draft that is narrower than the target; deep enough for the features of Qwen3-VL.
NARROW = Size(layers=2, hidden=32, kv_heads=1, tied=True)


def change_weights(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path, metadata={"format": "pt"})


def copy_tower(target: Path, draft: Path, *, mergers: bool = False) -> None:
    """Give a draft the weights of the target's tower, those of the mergers only where asked."""
    source = load_file(target / "model.safetensors")
    names = [name for name in source if "visual" in name or "vision_tower" in name]
    names = [name for name in names if mergers or "merger" not in name]
    assert names
    change_weights(draft, lambda weights: weights.update({name: source[name] for name in names}))


def write_pair(folder: Path, family: str, draft: Size = NARROW, *, mergers: bool = False) -> Path:
    """A target, and a draft behind the same trunk; one of the target's size often agrees with it.

    Args:
        folder: gets folders `target` and `draft`.
        family: the ``model_type``.
        draft: size of its text model.
        mergers: whether the mergers are equal, too.
    """
    target = write_family(folder / "target", family, TARGET)
    seeds = {"noise_seed": 5} if draft == TARGET else {"seed": 2}
    copy_tower(target, write_family(folder / "draft", family, draft, **seeds), mergers=mergers)
    return folder


def load_pair(folder: Path, **settings: Any) -> LoadedPair:
    model = ModelSettings(
        pair=f"{folder / 'target'}+{folder / 'draft'}", device="cpu", threads=1, **settings
    )
    return load_pair_folders(find_pair(model, needs_draft=True), model)


@contextmanager
def blocks_run(pair: LoadedPair) -> Iterator[list[int]]:
    """One entry for every call of the first block of the trunk, which both models have."""
    calls: list[int] = []
    block: Any = pair.target.model.model.visual.blocks[0]
    handle = block.register_forward_pre_hook(lambda *_: calls.append(1))
    try:
        yield calls
    finally:
        handle.remove()
