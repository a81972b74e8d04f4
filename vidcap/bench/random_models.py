"""Models of released sizes with random weights, and videos of random pixels.

What a decoding step costs does not depend on the weights, so a machine can be measured before they
are there. No tokenizer and no processor is needed.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vidcap.engine.attention import ATTENTION_NAME, register
from vidcap.models.adapter import ReleasedVideoModel
from vidcap.models.checkpoint import Checkpoint
from vidcap.models.facts import pair_tables
from vidcap.models.geometry import FAMILIES, make_geometry
from vidcap.models.protocol import TokenRules, VideoInputs
from vidcap.models.released_configs import released_config

_SMALL_TEXT = {
    "num_hidden_layers": 3,
    "hidden_size": 256,
    "intermediate_size": 256,
    "vocab_size": 1024,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
_NARROW = {"hidden_size": 64, "intermediate_size": 64}
_SMALL_VISION: dict[str, dict[str, Any]] = {
    "qwen2_vl": {"depth": 2, "embed_dim": 64, "num_heads": 2},
    "qwen2_5_vl": {**_NARROW, "depth": 2, "num_heads": 2, "fullatt_block_indexes": [1]},
    "qwen3_vl": {**_NARROW, "depth": 3, "num_heads": 2, "deepstack_visual_indexes": [0, 1]},
    "llava_onevision": {**_NARROW, "num_hidden_layers": 2, "num_attention_heads": 2},
}

#: Where a new token may begin an id: below lie tokens that random prompts leave alone.
_FIRST_ID = 10


class _NoTokens:
    """Stands where a tokenizer would: random models have ids only."""

    video_token = "<video>"

    def get_added_vocab(self) -> dict[str, int]:
        """No token is special."""
        return {}


class _NoFolder(Checkpoint):
    """A checkpoint that lies nowhere."""

    @property
    def tokenizer(self) -> Any:
        """See :class:`Checkpoint`."""
        return _NoTokens()

    @property
    def rules(self) -> TokenRules:
        """Every row of the vocabulary is a token; id 0 ends a text."""
        text = self.config.get_text_config()
        placeholders = sorted({self.config.video_token_id, self.config.image_token_id})
        return TokenRules(
            text.vocab_size, frozenset({0}), tuple(placeholders), 1.0, text.max_position_embeddings
        )


@dataclass(frozen=True, slots=True)
class RandomVideo:
    """Inputs and a question for random models.

    Attributes:
        inputs: ids and pixels.
        suffix_ids: Long[1, n] the question.
    """

    inputs: VideoInputs
    suffix_ids: Tensor


def random_model(
    name: str, device: torch.device, dtype: torch.dtype, *, seed: int = 0, small: bool = False
) -> ReleasedVideoModel:
    """The adapter of a preset's model with random weights.

    Args:
        name: the model's hub id.
        device, dtype: where and how.
        seed: of the weights; the same seed gives the same model.
        small: whether to keep the form and make everything narrow and shallow.
    """
    from transformers import AutoModelForImageTextToText, GenerationConfig
    from transformers.utils import logging

    logging.set_verbosity_error()
    register()
    config = _small_config(name) if small else released_config(name)
    torch.manual_seed(seed)
    with torch.device(device):
        model = AutoModelForImageTextToText.from_config(config, dtype=dtype)
    model.tie_weights()
    model.set_attn_implementation({"text_config": ATTENTION_NAME})
    family = FAMILIES[config.model_type]
    geometry = make_geometry({"model_type": config.model_type}, {}, name)
    generation = GenerationConfig(eos_token_id=0, pad_token_id=0, bos_token_id=0)
    checkpoint = _NoFolder(Path(name), family, config, generation, None, geometry)
    module, _, kind = family.adapter.partition(":")
    adapter: type[ReleasedVideoModel] = getattr(importlib.import_module(module), kind)
    return adapter(checkpoint, model.eval())


def random_video(model: ReleasedVideoModel, visual_tokens: int, *, seed: int = 1) -> RandomVideo:
    """A video of about that many visual tokens, with a question of 16 tokens."""
    generator = torch.Generator().manual_seed(seed)
    config, vision = model.model.config, model.model.config.vision_config
    if config.model_type == "llava_onevision":
        side = model.checkpoint.geometry.frame_size(1, 1, 1)[0]
        frames = max(1, visual_tokens // 196)
        pixels = torch.randn(1, frames, 3, side, side, generator=generator)
        return _video(model, [frames * 196 + 1], {"pixel_values_videos": pixels}, generator)
    merge = vision.spatial_merge_size
    height = width = 16
    steps = max(1, visual_tokens // (height * width))
    patch = 3 * vision.temporal_patch_size * vision.patch_size**2
    tensors = {
        "pixel_values_videos": torch.randn(
            steps * height * width * merge**2, patch, generator=generator
        ),
        "video_grid_thw": torch.tensor([[steps, height * merge, width * merge]]),
        "second_per_grid_ts": torch.tensor([1.0]),
    }
    stamped = config.model_type == "qwen3_vl"
    spans = [height * width] * steps if stamped else [height * width * steps]
    return _video(model, spans, tensors, generator)


def _video(
    model: ReleasedVideoModel,
    spans: list[int],
    tensors: dict[str, Tensor],
    generator: torch.Generator,
) -> RandomVideo:
    """Random text in front of every span of placeholders, and behind the last one."""
    config = model.model.config

    def text(count: int) -> Tensor:
        most = min(config.get_text_config().vocab_size, config.image_token_id, 100_000)
        return torch.randint(_FIRST_ID, most, (1, count), generator=generator)

    pieces = []
    for span in spans:
        pieces += [text(8), torch.full((1, span), config.video_token_id)]
    ids = torch.cat(pieces, dim=1)
    shown = {name: tensors[name].to(model.language.kv_spec.dtype) for name in tensors}
    shown |= {name: item for name, item in tensors.items() if name != "pixel_values_videos"}
    visual = sum(spans) - (config.model_type == "llava_onevision")
    return RandomVideo(VideoInputs(ids, shown, visual), text(16))


def _small_config(name: str) -> Any:
    """The same form, narrow and shallow, with the placeholders inside a small vocabulary."""
    family = pair_tables()["models"][name]["family"]
    text = _SMALL_TEXT | ({"head_dim": 128} if family == "qwen3_vl" else {})
    config = released_config(name, text, _SMALL_VISION[family])
    config.video_token_id, config.image_token_id = text["vocab_size"] - 1, text["vocab_size"] - 2
    return config
