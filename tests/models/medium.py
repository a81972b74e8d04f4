"""Random checkpoints of 30 to 150 MB, large enough for memory to be measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.models.families import BUILDERS, TARGET


@dataclass(frozen=True)
class Medium:
    """Sizes of a text model with heads of 64."""

    layers: int
    hidden: int
    inner: int
    kv_heads: int
    tied: bool


MEDIUM_TARGET = Medium(layers=8, hidden=384, inner=1536, kv_heads=2, tied=False)
MEDIUM_DRAFT = Medium(layers=3, hidden=256, inner=768, kv_heads=1, tied=True)
ROWS, TOWER_WIDTH, TOWER_INNER, TOWER_LAYERS, TOWER_HEADS = 16_384, 256, 1024, 6, 4


def write_medium(folder: Path, family: str, size: Medium) -> Path:
    """A checkpoint in bfloat16, as those on the hub are."""
    tiny, processor = BUILDERS[family](TARGET)
    config = tiny.config
    _resize_text(config, family, size)
    _resize_tower(config.vision_config, family, size)
    if family == "llava_onevision":
        _enlarge_frames(config.vision_config, processor)
    torch.manual_seed(0)
    model = type(tiny)(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _resize_text(config: Any, family: str, size: Medium) -> None:
    text = config.text_config
    text.hidden_size, text.intermediate_size = size.hidden, size.inner
    text.num_hidden_layers, text.layer_types = size.layers, ["full_attention"] * size.layers
    text.num_attention_heads, text.num_key_value_heads = size.hidden // 64, size.kv_heads
    text.vocab_size = ROWS
    text.tie_word_embeddings = config.tie_word_embeddings = size.tied
    if family == "qwen3_vl":
        text.head_dim = 64
    if family != "llava_onevision":
        text.rope_parameters["mrope_section"] = [8, 12, 12]


def _resize_tower(tower: Any, family: str, size: Medium) -> None:
    if family == "llava_onevision":
        tower.num_hidden_layers, tower.num_attention_heads = TOWER_LAYERS, TOWER_HEADS
    else:
        tower.depth, tower.num_heads = TOWER_LAYERS, TOWER_HEADS
    if family == "qwen2_vl":
        tower.embed_dim, tower.hidden_size = TOWER_WIDTH, size.hidden
        tower.mlp_ratio = TOWER_INNER // TOWER_WIDTH
        return
    tower.hidden_size, tower.intermediate_size = TOWER_WIDTH, TOWER_INNER
    if family != "llava_onevision":
        tower.out_hidden_size = size.hidden


def _enlarge_frames(tower: Any, processor: Any) -> None:
    """Frames of 336 x 336 pixels, 24 patches on each side."""
    tower.image_size, processor.num_image_tokens = 336, 24 * 24
    for part in (processor.image_processor, processor.video_processor):
        part.size = {"height": 336, "width": 336}
