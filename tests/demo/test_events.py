from __future__ import annotations

from typing import Any

import pytest

from vidcap.demo.events import EventClaim, read_event
from vidcap.demo.reading import read_claims
from vidcap.demo.score import score_caption

RED, BLUE, GREEN = ("red", "circle"), ("blue", "star"), ("green", "ring")


def thing(colour: str, shape: str, becomes: str | None = None) -> dict[str, Any]:
    return {
        "colour": colour,
        "shape": shape,
        "size": "small",
        "motion": "still",
        "place": "middle",
        "start_px": [20.0, 20.0],
        "becomes": becomes,
    }


ACCOUNT = {
    "background": {"kind": "noise", "colours": ["navy"], "axis": None},
    "objects": [thing(*RED), thing(*BLUE, becomes="white"), thing(*GREEN)],
    "events": [
        {"kind": "disappears", "object": 0, "time_s": 2.1},
        {"kind": "changes colour", "object": 1, "time_s": 5.0},
        {"kind": "appears", "object": 2, "time_s": 9.2},
    ],
    "relation": None,
}

GONE = "After 2 seconds, the red circle disappears."
TURNS = "The blue star turns white 5 seconds in."
COMES = "Then, at about 9 seconds, the green ring comes into view."


@pytest.mark.parametrize(
    ("sentence", "claim"),
    [
        ("after 2 seconds, the red circle vanishes", EventClaim("disappears", RED, None, 2)),
        ("the red circle is gone once 12 seconds have passed", ("disappears", None, 12)),
        ("one second in, the red circle shows up", EventClaim("appears", RED, None, 1)),
        ("it is the red circle that turns blue", ("changes colour", "blue", None)),
        ("the red circle changes from red to blue", ("changes colour", "blue", None)),
        ("the red circle changes its color to blue after 3 seconds", ("changes colour", "blue", 3)),
        ("after 3 seconds, a red circle appears", EventClaim("appears", RED, None, 3)),
        ("the red circle becomes visible after 3 seconds", EventClaim("appears", RED, None, 3)),
        ("a red circle appears, which rests", None),
        ("the red circle becomes bigger", None),
        ("the circle disappears after 3 seconds", None),
        ("the red circle appears and disappears", None),
        ("after 3 seconds, the red circle rises", None),
    ],
)
def test_events_are_read(sentence: str, claim: EventClaim | tuple[Any, ...] | None) -> None:
    expected = EventClaim(claim[0], RED, *claim[1:]) if isinstance(claim, tuple) else claim
    assert read_event(sentence) == expected


def test_an_event_says_nothing_about_how_an_object_moves_or_looks() -> None:
    claims = read_claims("A small red circle rises. After 4 seconds, the red circle turns blue.")
    [known] = claims.objects
    assert (known.colour, known.motion) == ("red", "up")
    assert claims.events == (EventClaim("changes colour", RED, "blue", 4),)


def test_an_object_may_be_introduced_by_its_event() -> None:
    claims = read_claims("After 3 seconds, a small red circle appears.")
    assert [(claim.colour, claim.size) for claim in claims.objects] == [("red", "small")]
    assert [claim.kind for claim in claims.events] == ["appears"]


@pytest.mark.parametrize(
    ("text", "events", "seconds"),
    [
        (f"{GONE} {TURNS} {COMES}", (3, 0, 0), (3, 0, 0)),
        (f"{GONE} {COMES}", (2, 0, 1), (2, 0, 1)),
        ("", (0, 0, 3), (0, 0, 3)),
        # Out of order: the fewest that have to move count as wrong, their seconds may be right.
        (f"{TURNS} {GONE} {COMES}", (2, 1, 0), (3, 0, 0)),
        (f"{COMES} {TURNS} {GONE}", (1, 2, 0), (3, 0, 0)),
        # Seconds: one off is right, two off is wrong, none is missing.
        (GONE.replace("2", "3"), (1, 0, 2), (1, 0, 2)),
        (GONE.replace("2", "4"), (1, 0, 2), (0, 1, 2)),
        ("The red circle disappears.", (1, 0, 2), (0, 0, 3)),
        # A false claim stands for one that is missing, and beyond that is wrong on top.
        (GONE.replace("red", "pink"), (0, 1, 2), (0, 1, 2)),
        (GONE.replace("disappears", "shows up"), (0, 1, 2), (0, 1, 2)),
        (TURNS.replace("white", "pink"), (0, 1, 2), (0, 1, 2)),
        (f"{GONE} {GONE} {TURNS} {COMES}", (3, 1, 0), (3, 1, 0)),
    ],
)
def test_events_and_their_seconds_are_compared(
    text: str, events: tuple[int, int, int], seconds: tuple[int, int, int]
) -> None:
    by_kind = score_caption(ACCOUNT, text).by_kind
    assert by_kind["event"] == events
    assert by_kind["when"] == seconds


def test_events_of_a_scene_without_any_are_wrong() -> None:
    account = {**ACCOUNT, "events": []}
    by_kind = score_caption(account, f"{GONE} {TURNS}").by_kind
    assert by_kind["event"] == by_kind["when"] == (0, 2, 0)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("A checkered background of teal and gray.", "checker gray teal"),
        ("In front of a noisy navy background, we see a red circle.", "noise navy"),
        ("There is a red circle on a gray and teal checkered background.", "checker gray teal"),
        ("The clip has one ring. Behind, there is a background of navy grain.", "noise navy"),
        (
            "On a background that fades from navy on the left to teal on the right there is "
            "a red circle that moves to the left.",
            "navy teal horizontal",
        ),
    ],
)
def test_backgrounds_are_read(text: str, read: str) -> None:
    assert read_claims(text).background == read


def test_a_list_of_objects_is_read_one_by_one() -> None:
    text = (
        "The clip shows a red circle that moves up and to the right, a blue star, which goes round "
        "and round and a green ring that moves to the left in front of a gradient background, "
        "navy on the left and teal on the right."
    )
    claims = read_claims(text)
    assert [claim.motion for claim in claims.objects] == ["up right", "circling", "left"]
    assert claims.background == "navy teal horizontal"
