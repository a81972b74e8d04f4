"""Questions of eight kinds about a scene, with answers in a few words or in a full sentence.

Every question can be answered from the clip alone, and its wording gives little away: yes and no,
left and right, before and after come up about equally often. The phrasing is drawn by chance, the
answer follows from the scene.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vidcap.demo import question_phrases as words
from vidcap.demo.ask_facts import ask_colour, ask_count, ask_motion, ask_relation
from vidcap.demo.ask_time import ask_order, ask_when
from vidcap.demo.ask_truth import ask_compare, ask_yes_no
from vidcap.demo.scenes import truth
from vidcap.demo.wording import Asked, draw
from vidcap.demo.world import Scene

#: Share of questions that want an answer in a few words.
BRIEF_SHARE = 0.4

#: Per kind, what asks a question of that kind; None where a scene does not allow it.
ASKERS: dict[str, Callable[[dict[str, Any], np.random.Generator], Asked | None]] = {
    "colour": ask_colour,
    "count": ask_count,
    "motion": ask_motion,
    "order": ask_order,
    "relation": ask_relation,
    "yes/no": ask_yes_no,
    "when": ask_when,
    "compare": ask_compare,
}

QUESTION_KINDS: tuple[str, ...] = tuple(ASKERS)


@dataclass(frozen=True, slots=True)
class Question:
    """One question about a scene.

    Attributes:
        kind: of :data:`QUESTION_KINDS`.
        text: as a user would ask it; it may end with a request for brevity.
        answer: in a few words where the text asks for that, else a full sentence.
    """

    kind: str
    text: str
    answer: str


def questions(scene: Scene, rng: np.random.Generator) -> list[Question]:
    """One question of every kind that the scene allows, in the order of the kinds.

    Colour, count, motion and yes/no are always there; relation and compare need two objects, when
    needs an event, and order two events or an object that appears beside another one.
    """
    return questions_of(truth(scene), rng)


def questions_of(facts: dict[str, Any], rng: np.random.Generator) -> list[Question]:
    """As :func:`questions`, from what ``vidcap.demo.scenes.truth`` returns."""
    asked = []
    for kind, ask in ASKERS.items():
        found = ask(facts, rng)
        brief = rng.random() < BRIEF_SHARE
        request = draw(rng, words.BRIEF_REQUESTS)
        if found is not None and brief:
            asked.append(Question(kind, f"{found.text} {request}", found.short))
        elif found is not None:
            asked.append(Question(kind, found.text, found.full))
    return asked
