"""Questions about whether something is so, and which of two objects something is true of.

Whether the answer is yes or no is drawn first, then something to ask for: both come up about
equally often, negated questions included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from vidcap.demo import phrases
from vidcap.demo import question_phrases as words
from vidcap.demo.wording import Asked, article, draw, name
from vidcap.demo.world import COLOURS, SHAPES, SIZES

#: Share of questions with a negation.
_NEGATED_SHARE = 0.35
#: Motions that go from place to place.
_TRAVELLING = ("left", "right", "up", "down", *words.PARTS, "circling", "bouncing")
#: How often objects that move in different ways are asked for that, about as often as two happen to
#: move the same way.
_DIFFERENT_SHARE = 0.2

Pairs = Sequence[tuple[dict[str, Any], dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Claim:
    """Something that is true or not.

    Attributes:
        asked, asked_not: the question for it, and for its opposite.
        said, said_not: the statement, and its opposite.
        short, short_not: the same in a few words.
    """

    asked: str
    asked_not: str
    said: str
    said_not: str
    short: str
    short_not: str


#: Makes a claim about a scene that is true or not, as asked; None where it cannot.
ClaimMaker = Callable[[dict[str, Any], np.random.Generator, bool], _Claim | None]


def ask_yes_no(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    """Whether something is there, moves in some way, has a size, or has an event.

    A negated question is answered with the statement itself behind "Yes" where the negation holds,
    and in a few words without yes and no, which would be ambiguous.
    """
    asked = None
    while asked is None:
        asked = ask_claim(draw(rng, (exists, moves_so, _moves, _sized, happens)), facts, rng)
    return asked


def ask_claim(
    claim_of: ClaimMaker, facts: dict[str, Any], rng: np.random.Generator
) -> Asked | None:
    """Whether something of one sort is so; None where the scene has nothing of that sort."""
    true = bool(rng.random() < 0.5)
    claim = claim_of(facts, rng, true)
    if claim is None:
        return None
    statement = claim.said if true else claim.said_not
    if rng.random() < _NEGATED_SHARE:
        short = claim.short if true else claim.short_not
        return Asked(claim.asked_not, f"{short}.", f"{'No' if true else 'Yes'}, {statement}.")
    word = "Yes" if true else "No"
    return Asked(claim.asked, f"{word}.", f"{word}, {statement}.")


def exists(facts: dict[str, Any], rng: np.random.Generator, true: bool) -> _Claim:
    """That an object is there, or one that differs in one respect from an object that is there."""
    thing = dict(draw(rng, facts["objects"]))
    there = {name(other) for other in facts["objects"]}
    there |= {f"{other.get('becomes')} {other['shape']}" for other in facts["objects"]}
    while not true and name(thing) in there:
        thing = dict(draw(rng, facts["objects"]))
        if rng.random() < 0.5:
            thing["colour"] = draw(rng, tuple(COLOURS))
        else:
            thing["shape"] = draw(rng, SHAPES)
    a, which = article(thing["colour"]), name(thing)
    return _Claim(
        asked=draw(rng, words.EXISTS_QUESTIONS).format(a=a, name=which),
        asked_not=draw(rng, words.NOT_EXISTS_QUESTIONS).format(name=which),
        said=f"there is {a} {which}",
        said_not=f"there is no {which}",
        short="There is one",
        short_not="There is none",
    )


def _does(which: str, base: str, third: str) -> _Claim:
    return _Claim(
        asked=f"Does the {which} {base}?",
        asked_not=f"Does the {which} not {base}?",
        said=f"the {which} {third}",
        said_not=f"the {which} does not {base}",
        short="It does",
        short_not="It does not",
    )


def moves_so(facts: dict[str, Any], rng: np.random.Generator, true: bool) -> _Claim:
    """That an object makes a certain motion."""
    thing = draw(rng, facts["objects"])
    motion = thing["motion"]
    if not true:
        parts = words.PARTS.get(motion, ())
        others = [m for m in words.BASE_MOTIONS if m != motion and m not in parts]
        elsewhere = [m for m in (t["motion"] for t in facts["objects"]) if m in others]
        motion = draw(rng, elsewhere if elsewhere and rng.random() < 0.5 else others)
    return _does(name(thing), words.BASE_MOTIONS[motion], phrases.MOTION_PHRASES[motion][0])


def _moves(facts: dict[str, Any], rng: np.random.Generator, true: bool) -> _Claim | None:
    """Only where one object stays still: elsewhere everything moves, so there is nothing to ask."""
    still = [thing for thing in facts["objects"] if thing["motion"] == "still"]
    travelling = [thing for thing in facts["objects"] if thing["motion"] in _TRAVELLING]
    if not still or not travelling:
        return None
    return _does(name(draw(rng, travelling if true else still)), "move", "moves")


def _sized(facts: dict[str, Any], rng: np.random.Generator, true: bool) -> _Claim | None:
    sized = [thing for thing in facts["objects"] if thing["size"] is not None]
    if not sized:
        return None
    thing = draw(rng, sized)
    size = thing["size"] if true else draw(rng, [s for s in SIZES if s != thing["size"]])
    which = name(thing)
    return _Claim(
        asked=f"Is the {which} {size}?",
        asked_not=f"Is the {which} not {size}?",
        said=f"the {which} is {size}",
        said_not=f"the {which} is not {size}",
        short="It is",
        short_not="It is not",
    )


def happens(facts: dict[str, Any], rng: np.random.Generator, true: bool) -> _Claim | None:
    """That an event happens to an object.

    Asked only in scenes with events, so that every kind of event is as often true as not."""
    events = facts.get("events") or ()
    if not events:
        return None
    event = draw(rng, events)
    index, kind = event["object"], event["kind"]
    if not true:
        happened = [(other["object"], other["kind"]) for other in events]
        free = [k for k in range(len(facts["objects"])) if (k, kind) not in happened]
        if free and rng.random() < 0.6:
            index = draw(rng, free)
        else:
            kind = draw(rng, [k for k in words.EVENT_CLAUSES if (index, k) not in happened])
    does, do = words.EVENT_CLAUSES[kind]
    return _does(name(facts["objects"][index]), do, does)


def ask_compare(facts: dict[str, Any], rng: np.random.Generator) -> Asked | None:
    """How two objects compare in size or motion.

    None for a single object, and where all that could be compared grows, shrinks and does so alike.
    """
    pairs = list(combinations(facts["objects"], 2))
    if not pairs:
        return None
    ways = [_ask_larger, _ask_mover, _ask_same_way, _ask_same_size]
    for at in rng.permutation(len(ways)):
        asked = ways[int(at)](pairs, rng)
        if asked is not None:
            return asked
    return _same_way(pairs, rng, alike=False) or _same_size(pairs, rng, alike=True)


def _which(
    one: dict[str, Any], other: dict[str, Any], word: str, verb: str, rng: np.random.Generator
) -> Asked:
    """Which of two objects, named in random order; the first given is the answer."""
    pair = (one, other) if rng.random() < 0.5 else (other, one)
    return Asked(
        f"Which {verb}{word}, the {name(pair[0])} or the {name(pair[1])}?",
        f"The {name(one)}.",
        f"The {name(one)} {verb.removeprefix('one ')}{word}.",
    )


def _ask_larger(pairs: Pairs, rng: np.random.Generator) -> Asked | None:
    differing = [pair for pair in pairs if {thing["size"] for thing in pair} == set(SIZES)]
    if not differing:
        return None
    pair = draw(rng, differing)
    small, large = sorted(pair, key=lambda thing: tuple(SIZES).index(thing["size"]))
    if rng.random() < 0.5:
        return _which(large, small, "larger", "is ", rng)
    return _which(small, large, "smaller", "is ", rng)


def _ask_mover(pairs: Pairs, rng: np.random.Generator) -> Asked | None:
    found = [
        (one, other)
        for pair in pairs
        for one, other in (pair, pair[::-1])
        if one["motion"] in _TRAVELLING and other["motion"] == "still"
    ]
    return _which(*draw(rng, found), "moves", "one ", rng) if found else None


def _ask_same_way(pairs: Pairs, rng: np.random.Generator) -> Asked | None:
    alike = _same_way(pairs, rng, alike=True)
    if alike is not None:
        return alike
    return _same_way(pairs, rng, alike=False) if rng.random() < _DIFFERENT_SHARE else None


def _same_way(pairs: Pairs, rng: np.random.Generator, alike: bool) -> Asked | None:
    found = [
        pair
        for pair in pairs
        if (pair[0]["motion"] == pair[1]["motion"]) == alike
        and (not alike or pair[0]["motion"] in _TRAVELLING)
    ]
    if not found:
        return None
    both = _both(draw(rng, found), rng)
    if alike:
        return Asked(f"Do {both} move the same way?", "Yes.", f"Yes, {both} move the same way.")
    return Asked(f"Do {both} move the same way?", "No.", f"No, {both} move in different ways.")


def _ask_same_size(pairs: Pairs, rng: np.random.Generator) -> Asked | None:
    return _same_size(pairs, rng, alike=bool(rng.random() < 0.5))


def _same_size(pairs: Pairs, rng: np.random.Generator, alike: bool) -> Asked | None:
    sized = [pair for pair in pairs if None not in (pair[0]["size"], pair[1]["size"])]
    found = [pair for pair in sized if (pair[0]["size"] == pair[1]["size"]) == alike]
    if not found:
        return None
    both = _both(draw(rng, found), rng)
    if alike:
        return Asked(f"Do {both} have the same size?", "Yes.", f"Yes, {both} have the same size.")
    return Asked(f"Do {both} have the same size?", "No.", f"No, {both} differ in size.")


def _both(pair: tuple[dict[str, Any], dict[str, Any]], rng: np.random.Generator) -> str:
    one, other = pair if rng.random() < 0.5 else pair[::-1]
    return f"the {name(one)} and the {name(other)}"
