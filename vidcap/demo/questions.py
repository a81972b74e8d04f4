"""Questions of eight kinds about a scene, with answers in a few words or in a full sentence.

Every question can be answered from the clip alone, and its wording gives little away: yes and no,
left and right, before and after come up about equally often. The phrasing is drawn by chance, the
answer follows from the scene.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from vidcap.demo import question_phrases as words
from vidcap.demo.ask_facts import (
    ask_colour,
    ask_count,
    ask_motion,
    ask_relation,
    count_motion,
    count_shape,
)
from vidcap.demo.ask_time import ask_order, ask_when
from vidcap.demo.ask_truth import (
    ask_claim,
    ask_compare,
    ask_yes_no,
    exists,
    happens,
    moves_so,
)
from vidcap.demo.scenes import truth
from vidcap.demo.wording import Asked, draw
from vidcap.demo.world import Scene

#: Share of questions that want an answer in a few words, and of those for practice: there few words
#: leave little but the decision to learn.
BRIEF_SHARE, BRIEF_PRACTICE_SHARE = 0.4, 0.8

Asker = Callable[[dict[str, Any], np.random.Generator], Asked | None]

#: Per kind, what asks a question of that kind; None where a scene does not allow it.
ASKERS: dict[str, Asker] = {
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

#: What needs the most practice: to compare what is asked with what the clip shows, and what happens
#: first. Scenes with few events have no questions of order.
PRACTISED: tuple[tuple[str, Asker], ...] = (
    ("count", count_shape),
    ("count", count_motion),
    ("yes/no", partial(ask_claim, exists)),
    ("yes/no", partial(ask_claim, moves_so)),
    ("yes/no", partial(ask_claim, happens)),
    *[("order", ask_order)] * 4,
)


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
        asked += _question(kind, ask, facts, rng, BRIEF_SHARE)
    return asked


def practice(scene: Scene, count: int, rng: np.random.Generator) -> list[Question]:
    """At most so many questions of what is learnt most slowly, mostly to be answered briefly."""
    facts, asked = truth(scene), []
    for _ in range(count):
        kind, ask = draw(rng, PRACTISED)
        asked += _question(kind, ask, facts, rng, BRIEF_PRACTICE_SHARE)
    return asked


def _question(
    kind: str, ask: Asker, facts: dict[str, Any], rng: np.random.Generator, brief_share: float
) -> list[Question]:
    """A question with its answer; none where the scene has nothing to ask."""
    found = ask(facts, rng)
    brief = rng.random() < brief_share
    request = draw(rng, words.BRIEF_REQUESTS)
    if found is None:
        return []
    if brief:
        return [Question(kind, f"{found.text} {request}", found.short)]
    return [Question(kind, found.text, found.full)]
