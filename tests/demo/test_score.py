from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidcap.demo.language import caption
from vidcap.demo.reading import CONFLICT, read_claims, read_object
from vidcap.demo.relations import holds
from vidcap.demo.scenes import FIRST_WORLD, World, sample_scene, truth
from vidcap.demo.score import FACT_KINDS, FactScore, pooled, score_caption

SWAPS: dict[str, dict[str, str]] = {
    "count": {"one": "three", "One": "Three", "single": "two", "two": "three", "Two": "One"},
    "background": {"black": "navy", "gray": "teal", "navy": "black", "teal": "gray"}
    | {"maroon": "beige", "beige": "maroon"},
    "colour": {"red": "cyan", "orange": "blue", "yellow": "white", "green": "pink"}
    | {"cyan": "red", "blue": "orange", "purple": "brown", "white": "green"},
    "shape": {"circle": "star", "square": "heart", "triangle": "ring", "star": "cross"}
    | {"cross": "circle", "ring": "square", "diamond": "circle", "heart": "diamond"},
    "size": {"small": "large", "little": "big", "large": "small", "big": "little"}
    | {"Small": "Large", "Large": "Small"},
    "motion": {"leftwards": "rightwards", "rightwards": "upwards", "upwards": "leftwards"}
    | {"rises": "sinks", "sinks": "rises", "climbs": "falls", "falls": "climbs"},
    "place": {"upper": "lower", "lower": "upper", "middle": "upper right"},
    "relation": {"larger": "smaller", "smaller": "larger", "bigger": "smaller", "more": "less"}
    | {"above": "below", "below": "above", "higher": "lower", "same": "opposite"}
    | {"opposite": "same", "left": "right", "right": "left"},
}


def captioned(seed: int, world: World = FIRST_WORLD) -> tuple[dict[str, Any], str]:
    scene = sample_scene(seed, world)
    return truth(scene), caption(scene, np.random.default_rng(seed))


def facts_of(account: dict[str, Any]) -> int:
    """How many facts there are to tell about a scene."""
    still = sum(thing["place"] is not None for thing in account["objects"])
    return 2 + 4 * len(account["objects"]) + still + (account["relation"] is not None)


def counts(score: FactScore) -> tuple[int, int, int]:
    return score.right, score.wrong, score.missing


def test_true_captions_are_all_right() -> None:
    for seed in range(500):
        account, text = captioned(seed)
        score = score_caption(account, text)
        assert counts(score) == (facts_of(account), 0, 0), text
        assert score.accuracy == 1.0


def test_true_captions_of_up_to_four_objects_are_all_right() -> None:
    world = World(counts=(1, 1, 1, 1), sizes=("small",))
    for seed in range(120):
        account, text = captioned(seed, world)
        assert counts(score_caption(account, text)) == (facts_of(account), 0, 0), text


def swapped(kind: str, text: str) -> str | None:
    """The text with one word exchanged for another of its kind, None where it has no such word."""
    start = text.rindex(". ") if kind == "relation" else 0
    match = re.compile(rf"\b({'|'.join(SWAPS[kind])})\b").search(text, start)
    if match is None:
        return None
    return text[: match.start()] + SWAPS[kind][match[1]] + text[match.end() :]


@pytest.mark.parametrize("kind", SWAPS)
def test_one_swapped_word_is_one_wrong_fact(kind: str) -> None:
    tried = 0
    for seed in range(150):
        account, text = captioned(seed)
        changed = swapped(kind, text)
        if changed is None:
            continue
        score = score_caption(account, changed)
        assert counts(score) == (facts_of(account) - 1, 1, 0), changed
        assert score.by_kind[kind][1] == 1, changed
        tried += 1
    assert tried >= 20


def test_swapped_ends_of_a_gradient_are_wrong() -> None:
    seen = 0
    for seed in range(60):
        account, text = captioned(seed)
        if account["background"]["axis"] == "vertical":
            changed = text.replace("at the top", "on the left")
            changed = changed.replace("at the bottom", "on the right")
            assert score_caption(account, changed).by_kind["background"] == (0, 1, 0)
            seen += 1
    assert seen > 5


def test_an_empty_text_misses_everything() -> None:
    for seed in range(40):
        account, _ = captioned(seed)
        assert counts(score_caption(account, "")) == (0, 0, facts_of(account))


@pytest.mark.parametrize(
    "text",
    [
        "A man rides his bicycle down the street while a dog waits on the left of the road.",
        "I am sorry, but I cannot help with that.",
        "heading left above all else; the same way as yesterday, right?",
    ],
)
def test_an_unrelated_text_gets_nothing_right(text: str) -> None:
    for seed in range(40):
        assert score_caption(captioned(seed)[0], text).right == 0


def test_the_caption_of_another_scene_is_mostly_wrong() -> None:
    pairs = [(captioned(seed)[0], captioned(seed + 1000)[1]) for seed in range(100)]
    assert pooled(score_caption(account, text) for account, text in pairs).accuracy < 0.4


def test_a_cut_caption_misses_what_was_cut() -> None:
    for seed in range(60):
        account, text = captioned(seed)
        sentences = text.split(". ")
        score = score_caption(account, ". ".join(sentences[: len(sentences) // 2]))
        assert score.wrong == 0
        assert score.missing > 0
        assert score.right + score.missing == facts_of(account)


RED_CIRCLE = {
    "colour": "red",
    "shape": "circle",
    "size": "large",
    "motion": "left",
    "place": None,
    "start_px": [80.0, 30.0],
}
BLUE_STAR = {
    "colour": "blue",
    "shape": "star",
    "size": "small",
    "motion": "still",
    "place": "lower left",
    "start_px": [20.0, 90.0],
}


def account_of(*objects: dict[str, Any]) -> dict[str, Any]:
    return {
        "background": {"kind": "plain", "colours": ["navy"], "axis": None},
        "objects": list(objects),
        "relation": {"kind": "larger", "first": 0, "second": 1} if len(objects) > 1 else None,
    }


def test_the_order_of_objects_does_not_matter() -> None:
    text = "A small blue star stays still in the lower left. A large red circle moves to the left."
    score = score_caption(account_of(RED_CIRCLE, BLUE_STAR), text)
    assert counts(score) == (9, 0, 3)


def test_any_true_relation_counts_and_a_false_one_does_not() -> None:
    account = account_of(RED_CIRCLE, BLUE_STAR)
    for sentence, right in (
        ("The blue star is smaller than the red circle.", True),
        ("At the start, the red circle is above the blue star.", True),
        ("The blue star starts left of the red circle.", True),
        ("The red circle starts left of the blue star.", False),
        ("The blue star is larger than the red circle.", False),
        ("The red circle and the blue star move in opposite directions.", False),
        ("The red circle is larger than the red circle.", False),
        ("The green circle is larger than the blue star.", False),
        ("The circle is larger than the other.", False),
    ):
        expected = (1, 0, 0) if right else (0, 1, 0)
        assert score_caption(account, sentence).by_kind["relation"] == expected, sentence


def test_objects_that_are_not_there_are_wrong() -> None:
    text = (
        "The clip has two objects. A large red circle moves to the left. "
        "Beside it, a small green ring rises."
    )
    score = score_caption(account_of(RED_CIRCLE), text)
    assert score.by_kind["count"] == (0, 1, 0)
    assert all(score.by_kind[kind] == (1, 1, 0) for kind in ("colour", "shape", "size", "motion"))


def test_more_mentions_than_objects_take_bounded_time() -> None:
    text = " ".join(f"A red {shape} rises." for shape in ("circle", "ring", "star") * 40)
    score = score_caption(account_of(RED_CIRCLE, BLUE_STAR), text)
    assert score.by_kind["colour"] == (1, 119, 0)


def test_a_claim_for_which_there_is_no_fact_is_wrong() -> None:
    text = "A large red circle moves to the left in the upper right."
    assert score_caption(account_of(RED_CIRCLE), text).by_kind["place"] == (0, 1, 0)


def test_a_contradiction_is_wrong() -> None:
    claim = read_object("a large red circle rises and then sinks")
    assert (claim.colour, claim.motion) == ("red", CONFLICT)
    text = "A large red circle moves to the left. The red circle rises."
    assert score_caption(account_of(RED_CIRCLE), text).by_kind["motion"] == (0, 1, 0)


def test_references_add_to_the_object_they_name() -> None:
    text = "There is a red circle. It moves to the left. The red circle is large."
    [claim] = read_claims(text).objects
    assert (claim.colour, claim.shape, claim.size, claim.motion) == (
        "red",
        "circle",
        "large",
        "left",
    )


def test_two_objects_in_one_sentence_are_told_apart() -> None:
    first, second = read_claims("A red circle rises and a blue star sinks.").objects
    assert (first.colour, first.motion) == ("red", "up")
    assert (second.colour, second.motion) == ("blue", "down")


def test_each_closing_relation_holds_and_has_its_opposite() -> None:
    for seed in range(150):
        account, _ = captioned(seed)
        relation = account["relation"]
        if relation is None:
            continue
        first, second = (account["objects"][relation[key]] for key in ("first", "second"))
        assert holds(relation["kind"], first, second)
        if relation["kind"] in ("larger", "above", "left"):
            assert not holds(relation["kind"], second, first)


def test_pooling_adds_up() -> None:
    scores = [score_caption(*captioned(seed)) for seed in range(5)]
    scores.append(score_caption(captioned(9)[0], ""))
    total = pooled(scores)
    assert total.right == sum(score.right for score in scores)
    assert total.missing == scores[-1].missing
    assert total.accuracy == total.right / (total.right + total.missing)
    assert pooled([]).accuracy == 0.0


WORDS = re.findall(
    r"\S+",
    "the a an it two one red blue circle star square small large moves rises to left right of "
    "upper background navy black top bottom larger than above and . . . , object objects still in",
)


@given(st.one_of(st.text(), st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)))
def test_any_text_can_be_scored(text: str) -> None:
    account = account_of(RED_CIRCLE, BLUE_STAR)
    score = score_caption(account, text)
    assert score.right + score.missing <= facts_of(account)
    assert score.right + score.wrong + score.missing >= facts_of(account)
    assert tuple(score.by_kind) == FACT_KINDS
    assert 0 <= score.accuracy <= 1
