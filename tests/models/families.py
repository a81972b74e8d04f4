"""Tiny random checkpoints of every family, written by ``save_pretrained`` in the hub's layout."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    GenerationConfig,
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionImageProcessor,
    LlavaOnevisionProcessor,
    LlavaOnevisionVideoProcessor,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen2VLImageProcessor,
    Qwen2VLProcessor,
    Qwen2VLVideoProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from tests.tiny import TEXTS
from vidcap.demo.tokenizer import train_tokenizer

#: Turns as LLaVA-OneVision lays them out: the video first, words behind it.
LLAVA_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }} {% for item in message.content if item.type == 'video' -%}
<video>{% endfor %}{% for item in message.content if item.type == 'text' %}
{{ item.text }}{% endfor %}<|im_end|>{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}"""


@dataclass(frozen=True)
class Size:
    """Sizes of a tiny model; a head is 16 wide in all of them."""

    layers: int = 3
    hidden: int = 64
    kv_heads: int = 2
    rows: int = 320
    tied: bool = False

    @property
    def text(self) -> dict[str, Any]:
        return {
            "vocab_size": self.rows,
            "hidden_size": self.hidden,
            "intermediate_size": 96,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.hidden // 16,
            "num_key_value_heads": self.kv_heads,
            "max_position_embeddings": 32768,
            "bos_token_id": 0,
            "eos_token_id": 2,
            "pad_token_id": 0,
            "tie_word_embeddings": self.tied,
        }


TARGET = Size()
#: A draft that pads its vocabulary further, as the smaller sizes on the hub do.
DRAFT = replace(TARGET, layers=1, hidden=32, kv_heads=1, rows=384, tied=True)

QWEN_MARKS = {
    "vision_start_token_id": 3,
    "vision_end_token_id": 4,
    "image_token_id": 6,
    "video_token_id": 7,
}
CUT = {"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2}
BOUNDS = {"shortest_edge": 56 * 56, "longest_edge": 448 * 448}


def tiny_tokenizer(*extra: str) -> Any:
    """A small tokenizer; the Qwens' marks have ids 3 to 7, `extra` ones come last."""
    tokenizer = train_tokenizer(TEXTS, size=300)
    tokenizer.add_special_tokens({"additional_special_tokens": list(extra)})
    return tokenizer


def rope(*section: int, **more: Any) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": 1e6, "mrope_section": list(section), **more}


def qwen2_vl(size: Size) -> tuple[Any, Any]:
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": size.hidden, "num_heads": 2}
    config = Qwen2VLConfig(
        text_config=size.text | {"rope_parameters": rope(2, 3, 3)},
        vision_config=vision | {"mlp_ratio": 2},
        tie_word_embeddings=size.tied,
        **QWEN_MARKS,
    )
    tokenizer = tiny_tokenizer()
    processor = Qwen2VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=dict(BOUNDS), **CUT),
        video_processor=Qwen2VLVideoProcessor(size=dict(BOUNDS), **CUT),
        tokenizer=tokenizer,
        chat_template=tokenizer.chat_template,
    )
    return Qwen2VLForConditionalGeneration(config), processor


def qwen2_5_vl(size: Size) -> tuple[Any, Any]:
    vision = {"depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48}
    vision |= {"out_hidden_size": size.hidden, "window_size": 112, "fullatt_block_indexes": [1]}
    config = Qwen2_5_VLConfig(
        text_config=size.text | {"rope_parameters": rope(2, 3, 3)},
        vision_config=vision,
        tie_word_embeddings=size.tied,
        **QWEN_MARKS,
    )
    tokenizer = tiny_tokenizer()
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=dict(BOUNDS), **CUT),
        video_processor=Qwen2VLVideoProcessor(size=dict(BOUNDS), **CUT),
        tokenizer=tokenizer,
        chat_template=tokenizer.chat_template,
    )
    return Qwen2_5_VLForConditionalGeneration(config), processor


def qwen3_vl(size: Size) -> tuple[Any, Any]:
    vision = {"depth": 3, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48}
    vision |= {"out_hidden_size": size.hidden, "num_position_embeddings": 16}
    deep = [0] if size.layers == 1 else [0, 1]
    config = Qwen3VLConfig(
        text_config=size.text
        | {"head_dim": 16, "rope_parameters": rope(4, 2, 2, mrope_interleaved=True)},
        vision_config=vision | {"deepstack_visual_indexes": deep},
        tie_word_embeddings=size.tied,
        **QWEN_MARKS,
    )
    tokenizer = tiny_tokenizer()
    cut = CUT | {"patch_size": 16}
    processor = Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=dict(BOUNDS), **cut),
        video_processor=Qwen3VLVideoProcessor(size={**BOUNDS, "longest_edge": 10**7}, **cut),
        tokenizer=tokenizer,
        chat_template=tokenizer.chat_template,
    )
    return Qwen3VLForConditionalGeneration(config), processor


def llava_onevision(size: Size) -> tuple[Any, Any]:
    tokenizer = tiny_tokenizer("<image>", "<video>")
    tokenizer.chat_template = LLAVA_TEMPLATE
    image, video = tokenizer.convert_tokens_to_ids(["<image>", "<video>"])
    vision = {"model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 48}
    vision |= {"num_hidden_layers": 2, "num_attention_heads": 2}
    vision |= {"image_size": 70, "patch_size": 14, "vision_use_head": False}
    config = LlavaOnevisionConfig(
        text_config=size.text | {"model_type": "qwen2", "rope_theta": 1e6},
        vision_config=vision,
        image_token_index=image,
        video_token_index=video,
        tie_word_embeddings=size.tied,
    )
    square = {"height": 70, "width": 70}
    processor = LlavaOnevisionProcessor(
        image_processor=LlavaOnevisionImageProcessor(size=dict(square)),
        video_processor=LlavaOnevisionVideoProcessor(size=dict(square)),
        tokenizer=tokenizer,
        chat_template=tokenizer.chat_template,
        num_image_tokens=25,
        vision_feature_select_strategy="full",
    )
    return LlavaOnevisionForConditionalGeneration(config), processor


BUILDERS: dict[str, Callable[[Size], tuple[Any, Any]]] = {
    "qwen2_vl": qwen2_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen3_vl": qwen3_vl,
    "llava_onevision": llava_onevision,
}


def write_family(
    folder: Path,
    family: str,
    size: Size = TARGET,
    *,
    seed: int = 1,
    noise_seed: int | None = None,
    shard_size: str = "50GB",
) -> Path:
    """A checkpoint with lively random weights.

    Args:
        folder: where to write it.
        family: its ``model_type``.
        size: of the text model.
        seed: of the weights.
        noise_seed: of a little noise on the weights, None for none.
        shard_size: largest weight file.
    """
    torch.manual_seed(seed)
    model, processor = BUILDERS[family](size)
    _enliven(model, seed, noise_seed)
    model.generation_config = GenerationConfig(
        bos_token_id=0, eos_token_id=[2, 0], pad_token_id=0, do_sample=True, temperature=0.01
    )
    model.save_pretrained(folder, max_shard_size=shard_size)
    processor.save_pretrained(folder)
    return folder


@torch.no_grad()
def _enliven(model: Any, seed: int, noise_seed: int | None) -> None:
    """Weights that make attention sharp and texts varied, at widths this small."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            scale = 0.1 if "embed_tokens" in name else 0.4
            weight.copy_(torch.randn(weight.shape, generator=generator) * scale)
    if noise_seed is not None:
        generator.manual_seed(noise_seed)
        for weight in model.parameters():
            noise = torch.randn(weight.shape, generator=generator)
            weight.add_(noise * weight.std() * 0.02 if weight.numel() > 1 else 0)


def change_json(folder: Path, name: str, **values: object) -> None:
    """Change values at the top of a JSON file of a checkpoint."""
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def processor_prompt(adapter: Any, rgb: np.ndarray, fps: float, question: str) -> dict[str, Any]:
    """What the released processor makes of the whole conversation."""
    from transformers.video_utils import VideoMetadata

    content = [{"type": "video"}, {"type": "text", "text": question}]
    text = adapter.processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    count = len(rgb)
    return adapter.processor(
        text=[text],
        videos=[torch.from_numpy(rgb).permute(0, 3, 1, 2)],
        video_metadata=[
            VideoMetadata(total_num_frames=count, fps=fps, frames_indices=list(range(count)))
        ],
        do_sample_frames=False,
        do_resize=False,
        return_tensors="pt",
    )
