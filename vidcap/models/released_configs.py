"""Configurations of the presets' models without their files, for measurements on random weights.

Sizes come from ``pairs.toml``; what planning does not need stands here. transformers' defaults give
the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vidcap.models.facts import pair_tables

#: Models that use their embedding as output layer too.
_TIED = frozenset(
    {
        "Qwen/Qwen2.5-VL-3B-Instruct",
        "Qwen/Qwen2-VL-2B-Instruct",
        "Qwen/Qwen3-VL-4B-Instruct",
        "Qwen/Qwen3-VL-2B-Instruct",
        "llava-hf/llava-onevision-qwen2-0.5b-ov-hf",
    }
)

_ROPE: dict[str, dict[str, Any]] = {
    "qwen2_vl": {"rope_theta": 1e6, "mrope_section": [16, 24, 24]},
    "qwen2_5_vl": {"rope_theta": 1e6, "mrope_section": [16, 24, 24]},
    "qwen3_vl": {"rope_theta": 5e6, "mrope_section": [24, 20, 20], "mrope_interleaved": True},
    "llava_onevision": {"rope_theta": 1e6},
}


def released_config(
    name: str, text: Mapping[str, Any] | None = None, vision: Mapping[str, Any] | None = None
) -> Any:
    """The configuration of a preset's model.

    Args:
        name: its hub id.
        text, vision: overrides of its two halves' settings, for a smaller one of the same form.

    Raises:
        KeyError: no preset names it.
    """
    from transformers import CONFIG_MAPPING

    entry = pair_tables()["models"][name]
    family, tied = entry["family"], name in _TIED
    context = pair_tables()["families"][family]["config"]["max_position_embeddings"]
    settings = {
        **{key: value for key, value in entry["config"].items() if key != "vision_config"},
        "max_position_embeddings": context,
        "rope_parameters": {"rope_type": "default", **_ROPE[family]},
        "tie_word_embeddings": tied,
        **(text or {}),
    }
    if family == "llava_onevision":
        settings["model_type"] = "qwen2"
    tower = _vision(family, settings["hidden_size"], name) | dict(vision or {})
    config_class: Any = CONFIG_MAPPING[family]
    return config_class(text_config=settings, vision_config=tower, tie_word_embeddings=tied)


def _vision(family: str, hidden: int, name: str) -> dict[str, Any]:
    """The vision tower, as far as it is not the default of its class."""
    known = pair_tables()["models"][name]["config"].get("vision_config", {})
    if family == "llava_onevision":
        return {
            "model_type": "siglip_vision_model",
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_hidden_layers": 26,
            "num_attention_heads": 16,
            "image_size": 384,
            "patch_size": 14,
            "vision_use_head": False,
        }
    if family == "qwen2_vl":
        return {"depth": 32, "embed_dim": 1280, "num_heads": 16, "hidden_size": hidden}
    if family == "qwen2_5_vl":
        return {
            "depth": 32,
            "hidden_size": 1280,
            "num_heads": 16,
            "intermediate_size": 3420,
            "out_hidden_size": hidden,
            "window_size": 112,
            "fullatt_block_indexes": [7, 15, 23, 31],
            "tokens_per_second": 2,
            **known,
        }
    small = {**known, "depth": 24, "deepstack_visual_indexes": [5, 11, 17]} if known else {}
    return {**small, "out_hidden_size": hidden}
