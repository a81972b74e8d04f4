"""Sizes of vision towers, as far as memory depends on them. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TowerFacts:
    """Sizes of a vision tower.

    Attributes:
        width: of its states.
        inner: of the inner vectors of its MLPs.
        inner_vectors: how many of these are alive at once: the way up, what its activation makes
            of it, and a gate or a second factor where there is one.
        rotates: whether queries and keys are rotated by their positions.
        deep_layers: layers whose features join the text model's first ones, too.
    """

    width: int
    inner: int
    inner_vectors: int
    rotates: bool
    deep_layers: int = 0


#: Towers by ``model_type``; the widths are those of their classes, for silent checkpoints.
_TOWERS = {
    "qwen2_vl": TowerFacts(1280, 5120, inner_vectors=3, rotates=True),
    "qwen2_5_vl": TowerFacts(1280, 3420, inner_vectors=3, rotates=True),
    "qwen3_vl": TowerFacts(1152, 4304, inner_vectors=2, rotates=True, deep_layers=3),
    "llava_onevision": TowerFacts(1152, 4304, inner_vectors=2, rotates=False),
}


def tower_facts(config: Mapping[str, Any]) -> TowerFacts:
    """The tower that a checkpoint's ``config.json`` describes, of a family that is supported."""
    form, tower = _TOWERS[config["model_type"]], config.get("vision_config") or {}
    if config["model_type"] == "qwen2_vl":
        # Its `hidden_size` is that of the text model.
        width = int(tower.get("embed_dim", form.width))
        inner = round(width * float(tower.get("mlp_ratio", form.inner / form.width)))
    else:
        width = int(tower.get("hidden_size", form.width))
        inner = int(tower.get("intermediate_size", form.inner))
    named = tower.get("deepstack_visual_indexes")
    deep_layers = form.deep_layers if named is None else len(named)
    return TowerFacts(width, inner, form.inner_vectors, form.rotates, deep_layers)
