from __future__ import annotations

from typing import Any

import pytest

from vidcap.demo.relations import closing_relation, holds, meeting_s, where
from vidcap.demo.scenes import LONG_WORLD, RICH_WORLD, sample_scene, truth


def thing(**facts: Any) -> dict[str, Any]:
    return {"size": "small", "motion": "still", "start_px": [50.0, 50.0], **facts}


def test_only_objects_that_meet_are_related() -> None:
    gone, new = thing(disappears_s=3.0), thing(appears_s=5.0, start_px=[90.0, 50.0])
    assert meeting_s(gone, new) is None
    assert not any(holds(kind, gone, new) for kind in ("left", "above", "larger", "both still"))
    assert closing_relation([gone, new]) is None
    assert meeting_s(gone, thing(appears_s=1.0)) == 1.0
    assert meeting_s(thing(), gone) == 0.0


def test_the_first_and_the_last_object_come_before_other_pairs() -> None:
    left, middle, right = thing(), thing(size="large"), thing(motion="left", start_px=[90.0, 50.0])
    closing = closing_relation([left, middle, right])
    assert closing == {"kind": "left", "first": 0, "second": 2}
    gone = thing(disappears_s=3.0)
    late = thing(appears_s=5.0)
    assert closing_relation([gone, middle, late]) == {"kind": "both still", "first": 0, "second": 1}


def test_places_are_compared_when_both_are_there() -> None:
    mover = thing(motion="right", start_px=[20.0, 50.0], seen_px=[[4.0, 90.0, 50.0]])
    late = thing(appears_s=4.0, start_px=[50.0, 52.0])
    assert where(mover, 4.0) == (90.0, 50.0)
    assert where(late, 4.0) == [50.0, 52.0]
    assert holds("left", late, mover)
    assert not holds("left", mover, late)
    assert closing_relation([mover, late]) == {"kind": "left", "first": 1, "second": 0}


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("up left", "down right", "opposite"),
        ("up right", "down left", "opposite"),
        ("up left", "up left", "same"),
        ("left", "right", "opposite"),
        ("still", "still", "both still"),
    ],
)
def test_directions_are_compared(one: str, other: str, kind: str) -> None:
    first, second = thing(motion=one), thing(motion=other, start_px=[90.0, 50.0])
    assert holds(kind, first, second)
    assert closing_relation([first, second]) == {"kind": kind, "first": 0, "second": 1}


@pytest.mark.parametrize(
    ("one", "other"),
    [("up left", "right"), ("up left", "up"), ("circling", "circling"), ("growing", "growing")],
)
def test_what_has_no_common_direction_is_neither_same_nor_opposite(one: str, other: str) -> None:
    first, second = thing(motion=one), thing(motion=other)
    assert not holds("same", first, second)
    assert not holds("opposite", first, second)


def test_nothing_is_larger_than_what_changes_its_size() -> None:
    growing = thing(motion="growing", size=None)
    assert not holds("larger", thing(size="large"), growing)
    assert not holds("larger", growing, thing())
    assert holds("larger", thing(size="large"), thing(motion="left"))


def test_closing_relations_of_scenes_hold_and_can_be_seen() -> None:
    kinds = set()
    for world, count in ((RICH_WORLD, 70), (LONG_WORLD, 25)):
        for seed in range(count):
            objects = truth(sample_scene(seed, world))["objects"]
            relation = closing_relation(objects)
            if relation is None:
                continue
            one, other = objects[relation["first"]], objects[relation["second"]]
            assert holds(relation["kind"], one, other)
            kinds.add(relation["kind"])
            moment = meeting_s(one, other)
            assert moment is not None
            (x, y), (other_x, other_y) = where(one, moment), where(other, moment)
            if relation["kind"] == "left":
                assert other_x - x >= 12
            elif relation["kind"] == "above":
                assert other_y - y >= 20
    assert kinds == {"opposite", "same", "both still", "larger", "above", "left"}
