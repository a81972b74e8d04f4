"""The texts from which the demo pair's tokenizer learns its merges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer

from vidcap.demo.batches import FIRST_TRAINING_SEED
from vidcap.demo.language import BRIEF_PROMPTS, DESCRIBE_PROMPTS, caption, questions
from vidcap.demo.scenes import sample_scene
from vidcap.demo.tokenizer import train_tokenizer
from vidcap.demo.world import RICH_WORLD

TOKENIZER_SCENES = 3000


def tokenizer_texts(scenes: int) -> Iterator[str]:
    """Captions, questions and answers from which the tokenizer learns its merges."""
    yield from (*DESCRIBE_PROMPTS, *BRIEF_PROMPTS) * 20
    rng = np.random.default_rng(0)
    for number in range(scenes):
        scene = sample_scene(FIRST_TRAINING_SEED + number, RICH_WORLD)
        yield caption(scene, rng)
        yield caption(scene, rng, brief=True)
        for one in questions(scene, rng):
            yield from (one.text, one.answer)


def load_tokenizer(out: Path) -> Any:
    """The run's tokenizer, trained where it is not there yet."""
    folder = out / "tokenizer"
    if not folder.exists():
        train_tokenizer(tokenizer_texts(TOKENIZER_SCENES)).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)
