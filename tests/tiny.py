"""Tiny random Qwen2.5-VL checkpoints in the hub's layout, and transformers' own greedy decoding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vidcap.bench import baseline
from vidcap.bench.baseline import full_prompt
from vidcap.demo.checkpoint import ModelShape, build_model, save_checkpoint
from vidcap.demo.tokenizer import train_tokenizer
from vidcap.engine.decoder import Decoder
from vidcap.engine.logits import LogitsSettings
from vidcap.engine.loop import Limits
from vidcap.engine.model import EncodedPrefix

SHAPE = ModelShape(
    layers=3,
    hidden=64,
    intermediate=96,
    heads=4,
    kv_heads=2,
    mrope_section=(2, 3, 3),
    vision_layers=2,
    vision_hidden=32,
    vision_intermediate=48,
    vision_heads=2,
)
DRAFT_SHAPE = replace(SHAPE, layers=1, hidden=32, heads=2, kv_heads=1)
TEXTS = ["a small red circle moves to the left", "what moves to the left? the red circle moves."]


def make_checkpoint(
    folder: Path, shape: ModelShape, seed: int, noise_of: Path | None = None
) -> Path:
    """Write a checkpoint with lively random weights; `noise_of`: a perturbed copy of that one."""
    tokenizer = train_tokenizer(TEXTS, size=300)
    model = build_model(shape, tokenizer, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            scale = 0.1 if "embed_tokens" in name else 0.4
            if weight.dim() > 1:
                weight.copy_(torch.randn(weight.shape, generator=generator) * scale)
    if noise_of is not None:
        from transformers import AutoModelForImageTextToText

        original = AutoModelForImageTextToText.from_pretrained(noise_of, dtype=torch.float32)
        with torch.no_grad():
            for weight, source in zip(model.parameters(), original.parameters(), strict=True):
                noise = torch.randn(weight.shape, generator=generator) * source.std() * 0.02
                weight.copy_(source + noise)
    save_checkpoint(model, tokenizer, folder)
    return folder


def random_frames(count: int, height: int = 112, width: int = 112, seed: int = 0) -> np.ndarray:
    """Coloured noise, uint8[count, height, width, 3]."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def transformers_greedy(
    adapter: Any,
    inputs: Any,
    prefix: EncodedPrefix,
    suffix: Tensor,
    *,
    max_tokens: int,
    stop_ids: frozenset[int] = frozenset(),
    repetition_penalty: float = 1.0,
) -> list[int]:
    """Tokens of transformers' ``generate`` with the engine's position ids and logits settings."""
    rules = adapter.rules
    run = baseline.transformers_generate(
        adapter,
        inputs,
        *full_prompt(prefix, suffix),
        Limits(max_tokens, stop_ids),
        LogitsSettings(rules.vocab_size, rules.placeholder_ids, repetition_penalty),
    )
    return list(run.tokens)


@torch.inference_mode()
def fresh_logits(model: Any, prefix: EncodedPrefix, text: list[int]) -> Tensor:
    """Logits [n, V] behind every text token, computed from nothing in one causal pass."""
    decoder = Decoder.prefill(model, prefix).fork(len(text))
    return model.logits(decoder.append(torch.tensor([text])))[0]
