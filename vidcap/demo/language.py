"""Captions of rendered scenes; questions about them are in ``vidcap.demo.questions``.

What a caption says is fixed by the scene, and so is the order (background, objects in the order of
the scene's truth, events in order of time, a relation). How it is said depends on the scene too,
through a hash of its facts, and to a smaller part on chance: a good model learns most of the
phrasing, and a draft that guesses differs from its target in fillers more than in facts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vidcap.demo.plain_language import plain_caption
from vidcap.demo.questions import QUESTION_KINDS, Question, practice, questions, questions_of
from vidcap.demo.rich_language import brief_caption, is_rich, rich_caption
from vidcap.demo.scenes import truth
from vidcap.demo.wording import CHANCE, Phrasing, article, name
from vidcap.demo.world import Scene
from vidcap.settings import DEFAULT_DESCRIBE_PROMPT

__all__ = [
    "BRIEF_PROMPTS",
    "CHANCE",
    "DESCRIBE_PROMPTS",
    "QUESTION_KINDS",
    "Question",
    "article",
    "caption",
    "caption_of",
    "name",
    "practice",
    "questions",
    "questions_of",
]

#: Requests that a caption answers.
DESCRIBE_PROMPTS: tuple[str, ...] = (
    DEFAULT_DESCRIBE_PROMPT,
    "Describe the video.",
    "Describe this clip in detail.",
    "What happens in this video?",
    "What can be seen in the video?",
    "Write a caption for this video.",
)

#: Requests that a brief caption answers.
BRIEF_PROMPTS: tuple[str, ...] = (
    "Describe the video in one sentence.",
    "Sum up the video in one sentence.",
    "Describe this clip briefly.",
    "Write a short caption for this video.",
    "In one sentence, what does the video show?",
)


def caption(scene: Scene, rng: np.random.Generator, brief: bool = False) -> str:
    """A caption of a scene.

    Args:
        scene: what to describe.
        rng: decides the phrasings that are left to chance.
        brief: one sentence about the background and what each object is and does; otherwise several
            sentences: overview, each object, events with their second, how two objects relate.
    """
    return caption_of(truth(scene), rng, brief)


def caption_of(facts: dict[str, Any], rng: np.random.Generator, brief: bool = False) -> str:
    """As :func:`caption`, from what ``vidcap.demo.scenes.truth`` returns."""
    phrasing = Phrasing(rng)
    if brief:
        return brief_caption(facts, phrasing)
    if is_rich(facts):
        return rich_caption(facts, phrasing)
    return plain_caption(facts, phrasing)
