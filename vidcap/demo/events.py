"""What a text says happens in a clip: events read back, and compared with the truth."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vidcap.demo.world import COLOURS, SHAPES

#: Seconds by which a text may be off.
TOLERANCE_S = 1

_COLOUR = "|".join(COLOURS)
_NAMED = re.compile(rf"\b({_COLOUR}) ({'|'.join(SHAPES)})\b")
_NUMBERS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
)
_SECONDS = re.compile(rf"\b(\d+|{'|'.join(_NUMBERS)}) seconds?\b")
_NEW_COLOUR = re.compile(
    r"\b(?:turns?|becomes?|changes?)(?: (?:its )?colou?r)?"
    rf"(?: from (?:{_COLOUR}))?(?: (?:in)?to)? ({_COLOUR})\b"
)
_VERBS = {
    "appears": re.compile(r"\bappears?\b|\bcomes? into view\b|\bshows? up\b|\bbecomes? visible\b"),
    "disappears": re.compile(
        r"\bdisappears?\b|\bvanish(?:es)?\b|\bgoes away\b|\bgo away\b|\bis gone\b"
    ),
    "changes colour": re.compile(rf"\bchanges? (?:its )?colou?r\b|{_NEW_COLOUR.pattern}"),
}
_DEFINITE = re.compile(rf"\bthe (?:{_COLOUR}) (?:{'|'.join(SHAPES)})\b")

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class EventClaim:
    """What a text says of one event.

    Attributes:
        kind: of ``vidcap.demo.world.EVENT_KINDS``.
        thing: colour and shape of the object as it was before.
        becomes: its new colour, where the text gives one.
        second: when, where the text says so.
    """

    kind: str
    thing: Name
    becomes: str | None = None
    second: int | None = None


def read_event(sentence: str) -> EventClaim | None:
    """The event that a sentence in lower case speaks of.

    Without a time, "a red circle appears" introduces an object and "the red circle appears" is an
    event.
    """
    kinds = event_kinds(sentence)
    named = _NAMED.search(sentence)
    second = read_second(sentence)
    if len(kinds) != 1 or named is None:
        return None
    if second is None and not _DEFINITE.search(sentence):
        return None
    new = _NEW_COLOUR.search(sentence)
    colour, shape = named.groups()
    return EventClaim(kinds[0], (colour, shape), new[1] if new else None, second)


def event_kinds(text: str) -> list[str]:
    """The kinds of events that a text in lower case has words for."""
    return [kind for kind, verb in _VERBS.items() if verb.search(text)]


def is_definite(sentence: str) -> bool:
    """Whether a sentence names an object as one that is known already."""
    return _DEFINITE.search(sentence) is not None


def read_second(text: str) -> int | None:
    """The number of seconds that a text in lower case gives, None without one."""
    match = _SECONDS.search(text)
    if match is None:
        return None
    word = match[1]
    return _NUMBERS.index(word) if word in _NUMBERS else int(word[:9])


def compare_events(
    truth: dict[str, Any], claims: Sequence[EventClaim]
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """(right, wrong, missing) of what happens, and of when.

    An event is right where kind, object and new colour are, and where it is told in order: of
    events told out of order, the fewest possible count as wrong. A second belongs to an event that
    is told rightly but for the order, and is right up to :data:`TOLERANCE_S`; the second of an
    event that does not happen is wrong.
    """
    true = [_claim(event, truth["objects"]) for event in truth.get("events", ())]
    told: dict[int, EventClaim] = {}
    spare: list[EventClaim] = []
    for claim in claims:
        index = next((k for k, t in enumerate(true) if k not in told and _agree(t, claim)), None)
        if index is None:
            spare.append(claim)
        else:
            told[index] = claim
    ordered = _longest_rising(list(told))
    missing = max(len(true) - len(told) - len(spare), 0)
    events = (ordered, len(told) - ordered + len(spare), missing)
    near = [_is_near(true[k].second, claim.second) for k, claim in told.items()]
    wrong = near.count(False) + sum(claim.second is not None for claim in spare)
    return events, (near.count(True), wrong, max(len(true) - near.count(True) - wrong, 0))


def _claim(event: dict[str, Any], objects: Sequence[dict[str, Any]]) -> EventClaim:
    thing = objects[event["object"]]
    becomes = thing["becomes"] if event["kind"] == "changes colour" else None
    return EventClaim(
        event["kind"], (thing["colour"], thing["shape"]), becomes, round(event["time_s"])
    )


def _agree(true: EventClaim, claim: EventClaim) -> bool:
    return (true.kind, true.thing, true.becomes) == (claim.kind, claim.thing, claim.becomes)


def _is_near(true: int | None, said: int | None) -> bool | None:
    if said is None or true is None:
        return None
    return abs(true - said) <= TOLERANCE_S


def _longest_rising(values: Sequence[int]) -> int:
    """Length of the longest rising subsequence."""
    lengths: list[int] = []
    for k, value in enumerate(values):
        before = [lengths[j] for j in range(k) if values[j] < value]
        lengths.append(1 + max(before, default=0))
    return max(lengths, default=0)
