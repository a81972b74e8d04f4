from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidcap.demo.answers import score_answer
from vidcap.demo.language import QUESTION_KINDS, Question, questions_of
from vidcap.demo.questions import ASKERS
from vidcap.demo.scenes import sample_scene, truth
from vidcap.demo.world import FIRST_WORLD, RICH_WORLD

RELATION = "Is the red circle to the left or to the right of the blue star at the start?"
HIGHER = "Which is higher up at the start, the red circle or the blue star?"
CHOICE = "What happens first: the red circle appears or the blue star changes its color?"
BEFORE = "Does the red circle appear before or after the blue star disappears?"
LARGER = "Which is larger, the red circle or the blue star?"
SAME = "Do the red circle and the blue star move the same way?"

#: Kind, question, its answer, other answers that say the same, and answers that do not.
CASES = [
    (
        "colour",
        "What color is the circle at the end?",
        "The circle is red at the end.",
        ("Red.", "red", "It is red."),
        ("Blue.", "It is not red.", "The square is red.", "Red and blue.", "", "Round."),
    ),
    (
        "colour",
        "What color is the background?",
        "Navy and teal.",
        ("The background is teal and navy.", "It fades from navy to teal."),
        ("Navy.", "Navy and gray.", "The background is red."),
    ),
    (
        "count",
        "How many circles are there? Answer briefly.",
        "None.",
        ("There are no circles.", "0", "Zero circles."),
        ("One.", "There is a circle.", "There are no squares.", "No.", "None or one."),
    ),
    (
        "count",
        "How many objects move to the left?",
        "Two objects move to the left.",
        ("Two.", "2", "two objects move to the left"),
        ("Three.", "Two objects move to the right.", "Two large objects.", "Some."),
    ),
    (
        "motion",
        "How does the red circle move?",
        "The red circle moves up and to the left.",
        ("Upwards and to the left.", "It rises to the left.", "The red circle climbs leftwards."),
        ("To the left.", "Upwards.", "The blue circle moves up and to the left.", "It circles."),
    ),
    (
        "motion",
        "How does the red circle move?",
        "It stays still.",
        ("The red circle does not move.", "The red circle rests."),
        ("The red circle moves.", "It does not move to the left.", "To the left."),
    ),
    (
        "motion",
        "What grows?",
        "The red circle and the blue star grow.",
        ("The blue star and the red circle.", "The red circle and the blue star."),
        ("The red circle.", "Nothing.", "The red circle and the blue star shrink.", "Yes."),
    ),
    (
        "motion",
        "What grows?",
        "Nothing.",
        ("Nothing grows.", "No object grows."),
        ("The red circle.", "Something.", ""),
    ),
    (
        "order",
        "What happens first?",
        "The red circle appears first.",
        ("The red circle appears.", "First, the red circle comes into view."),
        ("The red circle.", "The red circle disappears.", "The red circle appears last."),
    ),
    (
        "order",
        CHOICE,
        "The blue star.",
        ("The blue star changes its color first.", "The red circle appears last."),
        ("The red circle.", "The blue star disappears first.", "The green ring.", "Both."),
    ),
    (
        "order",
        BEFORE,
        "Before.",
        (
            "The red circle appears before the blue star disappears.",
            "The blue star disappears after the red circle appears.",
        ),
        ("After.", "The blue star disappears before the red circle appears.", "Yes."),
    ),
    (
        "relation",
        RELATION,
        "To the left.",
        (
            "The red circle is to the left of the blue star.",
            "The blue star is to the right of the red circle.",
            "It is left of the blue star.",
        ),
        (
            "To the right.",
            "The red circle is to the right of the blue star.",
            "It is to the right of the blue star.",
            "The red circle is not to the left of the blue star.",
            "The green circle is to the left of the blue star.",
            "To the left or to the right.",
        ),
    ),
    (
        "relation",
        HIGHER,
        "The blue star.",
        ("The blue star is higher up.", "The red circle is lower.", "The blue star is above."),
        ("The red circle.", "The blue star is not higher up.", "The star.", ""),
    ),
    (
        "yes/no",
        "Is there a red circle?",
        "No, there is no red circle.",
        ("No.", "There is no red circle.", "no", "No, there is none.", "There isn't a red circle."),
        ("Yes.", "There is a red circle.", "No, there is a red circle.", "Maybe."),
    ),
    (
        "yes/no",
        "Is there a red circle?",
        "Yes, there is a red circle.",
        ("Yes.", "There is one.", "There is a red circle."),
        ("No.", "Yes, there is no red circle.", "Yes, there is a blue circle.", ""),
    ),
    (
        "yes/no",
        "Is there no red circle?",
        "Yes, there is no red circle.",
        ("There is none.", "No, there is no red circle.", "Yes."),
        ("There is one.", "No.", "No, there is a red circle.", "No, the red circle rests."),
    ),
    (
        "yes/no",
        "Does the blue star not move?",
        "No, the blue star moves.",
        ("It does.", "The blue star moves.", "No."),
        ("It does not.", "The blue star does not move.", "Yes.", "The red circle moves."),
    ),
    (
        "yes/no",
        "Is the blue star large?",
        "No, the blue star is not large.",
        ("No.", "It is not.", "No, the blue star is small."),
        ("Yes.", "It is.", "Yes, the blue star is not large."),
    ),
    (
        "when",
        "When does the red circle appear?",
        "The red circle appears after 5 seconds.",
        ("After 5 seconds.", "At about 6 seconds.", "four seconds in", "5"),
        ("After 7 seconds.", "The blue star appears after 5 seconds.", "Late.", "It disappears."),
    ),
    (
        "compare",
        LARGER,
        "The blue star is larger.",
        (
            "The blue star.",
            "The red circle is smaller than the blue star.",
            "The blue star is bigger.",
            "The red circle is not larger.",
        ),
        ("The red circle.", "The blue star is smaller.", "Neither.", "The green ring is larger."),
    ),
    (
        "compare",
        SAME,
        "No, the red circle and the blue star move in different ways.",
        ("No.", "They do not move the same way.", "They differ."),
        ("Yes.", "Yes, the red circle and the blue star move the same way.", "The red circle."),
    ),
]


@pytest.mark.parametrize(("kind", "question", "answer", "same", "other"), CASES)
def test_answers_are_read(
    kind: str, question: str, answer: str, same: tuple[str, ...], other: tuple[str, ...]
) -> None:
    asked = Question(kind, question, answer)
    assert score_answer(asked, answer)
    for text in same:
        assert score_answer(asked, text), text
    for text in other:
        assert not score_answer(asked, text), text


@pytest.mark.parametrize("world", [FIRST_WORLD, RICH_WORLD])
def test_answers_in_either_length_are_right(world: object) -> None:
    for seed in range(120):
        facts = truth(sample_scene(seed, world))
        rng = np.random.default_rng(seed)
        for kind, ask in ASKERS.items():
            asked = ask(facts, rng)
            if asked is not None:
                for answer in (asked.short, asked.full):
                    for text in (asked.short, asked.full):
                        assert score_answer(Question(kind, asked.text, answer), text), asked


def test_answers_to_other_questions_are_seldom_right() -> None:
    asked: dict[str, list[Question]] = {kind: [] for kind in QUESTION_KINDS}
    for seed in range(150):
        facts = truth(sample_scene(seed, RICH_WORLD))
        for one in questions_of(facts, np.random.default_rng(seed)):
            asked[one.kind].append(one)
    for kind, some in asked.items():
        turned = [*some[1:], some[0]]
        right = [score_answer(one, other.answer) for one, other in zip(some, turned, strict=True)]
        assert np.mean(right) < 0.35, kind


WORDS = re.findall(
    r"\S+",
    "yes no not the a red circle blue star left right above below first last before after appears "
    "moves up larger smaller same there is one two 3 seconds none nothing , . grows at start end",
)


@given(st.one_of(st.text(), st.lists(st.sampled_from(WORDS), max_size=20).map(" ".join)))
def test_any_text_can_be_read(text: str) -> None:
    for kind, question, answer, _, _ in CASES:
        assert score_answer(Question(kind, question, answer), text) in (True, False)
