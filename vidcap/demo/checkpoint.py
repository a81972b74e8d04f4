"""Checkpoints of the demo pair in the hub's layout: released classes only, no custom code.

A folder written here loads with ``AutoModelForImageTextToText`` and ``AutoProcessor``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoModelForImageTextToText,
    AutoTokenizer,
    GenerationConfig,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

from vidcap.demo.tokenizer import (
    END_OF_TEXT,
    IMAGE_PAD,
    TURN_END,
    VIDEO_PAD,
    VISION_END,
    VISION_START,
)

#: Pixels of one frame, least and most: 4 x 4 and 16 x 16 visual tokens.
MIN_PIXELS, MAX_PIXELS = 112 * 112, 448 * 448
SHARD_SIZE = "15MB"


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a model of the pair.

    Attributes:
        layers, hidden, intermediate, heads, kv_heads: of the text model; hidden / heads is the size
            of a head, 128 where ``mrope_section`` keeps its usual values.
        mrope_section: frequencies for time, height and width; they sum to half a head.
        vision_layers, vision_hidden, vision_intermediate, vision_heads: of the vision tower.
    """

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int = 1
    mrope_section: tuple[int, int, int] = (16, 24, 24)
    vision_layers: int = 3
    vision_hidden: int = 160
    vision_intermediate: int = 480
    vision_heads: int = 5


TARGET_SHAPE = ModelShape(layers=12, hidden=384, intermediate=512, heads=3)
#: Heads of half the size: two layers have to look for more things at once than two heads can.
DRAFT_SHAPE = ModelShape(
    layers=2, hidden=256, intermediate=768, heads=4, kv_heads=2, mrope_section=(8, 12, 12)
)


def build_config(shape: ModelShape, tokenizer: Any) -> Qwen2_5_VLConfig:
    """The released configuration of a model of this shape; vocabulary rounded up to 64 rows."""
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in tokenizer.all_special_tokens}
    text = {
        "vocab_size": -(-len(tokenizer) // 64) * 64,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e6,
            "mrope_section": list(shape.mrope_section),
        },
        "bos_token_id": ids[END_OF_TEXT],
        "eos_token_id": ids[TURN_END],
        "pad_token_id": ids[END_OF_TEXT],
        "tie_word_embeddings": True,
    }
    return Qwen2_5_VLConfig(
        text_config=text,
        vision_config=_vision_config(shape),
        image_token_id=ids[IMAGE_PAD],
        video_token_id=ids[VIDEO_PAD],
        vision_start_token_id=ids[VISION_START],
        vision_end_token_id=ids[VISION_END],
        tie_word_embeddings=True,
    )


def _vision_config(shape: ModelShape) -> dict[str, Any]:
    return {
        "depth": shape.vision_layers,
        "hidden_size": shape.vision_hidden,
        "intermediate_size": shape.vision_intermediate,
        "num_heads": shape.vision_heads,
        "out_hidden_size": shape.hidden,
        "patch_size": 14,
        "temporal_patch_size": 2,
        "spatial_merge_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [shape.vision_layers - 1],
        "tokens_per_second": 2,
    }


def build_model(shape: ModelShape, tokenizer: Any, seed: int) -> Qwen2_5_VLForConditionalGeneration:
    """A model of this shape with fresh float32 weights.

    The released start (a deviation of 0.02 everywhere) suits widths of thousands; at widths of
    hundreds attention would stay flat for long. So products start at the inverse root of their
    inputs, and those that write into the residual stream smaller by the root of their number.
    """
    torch.manual_seed(seed)
    model = Qwen2_5_VLForConditionalGeneration(build_config(shape, tokenizer)).float()
    towers: tuple[Any, Any] = (model.model.language_model.layers, model.model.visual.blocks)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv3d) and module is not model.lm_head:
            nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5)
    nn.init.normal_(model.model.language_model.embed_tokens.weight, std=shape.hidden**-0.5)
    with torch.no_grad():
        for tower in towers:
            for name, weight in tower.named_parameters():
                if name.endswith(("o_proj.weight", "attn.proj.weight", "down_proj.weight")):
                    weight.mul_((2 * len(tower)) ** -0.5)
    return model


def build_processor(tokenizer: Any) -> Qwen2_5_VLProcessor:
    """The released processor with the demo pair's frame sizes and chat template."""
    cut: dict[str, Any] = {"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2}
    size = {"shortest_edge": MIN_PIXELS, "longest_edge": MAX_PIXELS}
    return Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=dict(size), **cut),
        video_processor=Qwen2VLVideoProcessor(size=dict(size), **cut, cap_pixels_per_frame=False),
        tokenizer=tokenizer,
        chat_template=tokenizer.chat_template,
    )


def generation_config(tokenizer: Any) -> GenerationConfig:
    """Greedy decoding that stops at the end of a turn or of the text."""
    end = tokenizer.convert_tokens_to_ids(END_OF_TEXT)
    return GenerationConfig(
        bos_token_id=end,
        eos_token_id=[tokenizer.convert_tokens_to_ids(TURN_END), end],
        pad_token_id=end,
        do_sample=False,
        repetition_penalty=1.0,
        max_new_tokens=256,
    )


def save_checkpoint(
    model: Qwen2_5_VLForConditionalGeneration, tokenizer: Any, folder: Path
) -> None:
    """Write a model with everything that belongs to it; weights in bfloat16.

    The weights come from a cast copy of the state: casting the model itself would also round its
    rotary frequencies.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tied = set(model.all_tied_weights_keys)
    state = {
        name: tensor.detach().to(torch.bfloat16)
        for name, tensor in model.state_dict().items()
        if name not in tied
    }
    model.generation_config = generation_config(tokenizer)
    model.save_pretrained(folder, state_dict=state, max_shard_size=SHARD_SIZE)
    _set_dtype(folder / "config.json")
    for path in folder.glob("*.safetensors"):
        path.chmod(0o644)  # they are written for their owner alone; others install them too
    processor = build_processor(tokenizer)
    processor.save_pretrained(folder)
    # Older releases, and readers that want no torch, look for one file per part.
    processor.image_processor.save_pretrained(folder)
    processor.video_processor.save_pretrained(folder)


def _set_dtype(path: Path) -> None:
    """Name the dtype of the saved weights, so that loading keeps it."""
    config = json.loads(path.read_text())
    for part in (config, *(config[name] for name in ("text_config", "vision_config"))):
        part["dtype"] = "bfloat16"
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def load_checkpoint(folder: Path) -> tuple[Any, Any]:
    """The model, in float32, and the tokenizer of a folder written by :func:`save_checkpoint`."""
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    return model, AutoTokenizer.from_pretrained(folder)


def adopt_weights(model: Any, tokenizer: Any, folder: Path) -> None:
    """Start a model from the weights of an earlier checkpoint of the same shape.

    Tokenizers may differ: rows of the embeddings are matched by what their tokens spell, and a new
    token starts as the mean of the old tokens that spell it.
    """
    old, old_tokenizer = load_checkpoint(folder)
    state, own = old.state_dict(), model.state_dict()
    name = next(key for key in own if key.endswith("embed_tokens.weight"))
    rows = own[name].clone()
    known = old_tokenizer.get_vocab()
    for token, index in tokenizer.get_vocab().items():
        if token in known:
            rows[index] = state[name][known[token]]
        else:
            text = tokenizer.convert_tokens_to_string([token])
            rows[index] = state[name][old_tokenizer(text).input_ids].mean(0)
    state[name] = rows
    for key in set(model.all_tied_weights_keys):
        state.pop(key, None)
    model.load_state_dict(state, strict=False)


def adopt_tower(source: Any, to: Any, *, merger: bool) -> None:
    """Give a model the vision tower of another, which stays as it is up to the merger.

    Args:
        merger: whether the merger starts from the other's too, where shapes agree; it learns.
    """
    state = source.model.visual.state_dict()
    own = to.model.visual.state_dict()
    same = {
        name: value
        for name, value in state.items()
        if value.shape == own[name].shape and (merger or not name.startswith("merger"))
    }
    to.model.visual.load_state_dict({**own, **same})
    to.model.visual.requires_grad_(False)
    to.model.visual.merger.requires_grad_(True)
