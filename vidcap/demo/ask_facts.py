"""Questions about what there is and how it moves: colour, count, motion, relation."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from vidcap.demo import phrases
from vidcap.demo import question_phrases as words
from vidcap.demo.relations import ABOVE_PX, meeting_s, where
from vidcap.demo.wording import Asked, draw, listed, name, sentence
from vidcap.demo.world import SHAPES, SIZES

#: How far two objects lie apart from left to right for a question about that.
_ASIDE_PX = 12.0
#: Share of colour questions about the background, and of those about objects that are about one end
#: of the clip although nothing changes.
_BACKGROUND_SHARE, _END_SHARE = 0.2, 0.3
#: Share of count questions of shapes about one that is there, and of motion questions about who.
_THERE_SHARE, _WHO_SHARE = 0.6, 0.4


def ask_colour(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    """About an object whose shape is unique, or the background."""
    shapes = [thing["shape"] for thing in facts["objects"]]
    unique = [thing for thing in facts["objects"] if shapes.count(thing["shape"]) == 1]
    if not unique or rng.random() < _BACKGROUND_SHARE:
        colours = " and ".join(facts["background"]["colours"])
        text = draw(rng, words.BACKGROUND_QUESTIONS)
        return Asked(text, sentence(colours) + ".", f"The background is {colours}.")
    thing = draw(rng, unique)
    shape, colour, when = thing["shape"], thing["colour"], ""
    if thing.get("becomes") is not None or rng.random() < _END_SHARE:
        when = draw(rng, _ends(thing))
    if when == " at the end":
        colour = thing.get("becomes") or colour
    text = draw(rng, words.COLOUR_QUESTIONS).format(shape=shape, when=when)
    return Asked(text, sentence(colour) + ".", f"The {shape} is {colour}{when}.")


def _ends(thing: dict[str, Any]) -> tuple[str, ...]:
    """At which ends of the clip an object can be seen."""
    there = (thing.get("appears_s") is None, thing.get("disappears_s") is None)
    return tuple(
        when for when, seen in zip((" at the start", " at the end"), there, strict=True) if seen
    )


def ask_count(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    """How many objects there are: all, of a shape, a size, a motion, or at one end of the clip."""
    ways = [_count_all, count_shape, count_motion]
    if all(thing["size"] is not None for thing in facts["objects"]):
        ways.append(_count_size)
    if any(event["kind"] != "changes colour" for event in facts.get("events", ())):
        ways += [_count_at_end] * 2
    return draw(rng, ways)(facts, rng)


def _count_all(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    text = draw(rng, words.COUNT_QUESTIONS)
    if facts.get("events"):
        text = "How many objects are there in total?"
    return _counted(text, len(facts["objects"]), "object", "objects")


def count_shape(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    """How many objects there are of one shape."""
    shapes = [thing["shape"] for thing in facts["objects"]]
    shape = draw(rng, shapes if rng.random() < _THERE_SHARE else SHAPES)
    plural = shape + ("es" if shape.endswith("s") else "s")
    return _counted(f"How many {plural} are there?", shapes.count(shape), shape, plural)


def _count_size(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    size = draw(rng, tuple(SIZES))
    count = sum(thing["size"] == size for thing in facts["objects"])
    return _counted(
        f"How many {size} objects are there?", count, f"{size} object", f"{size} objects"
    )


def _counted(text: str, count: int, singular: str, plural: str) -> Asked:
    number = phrases.NUMBERS[count]
    full = f"There is one {singular}." if count == 1 else f"There are {number} {plural}."
    return Asked(text, _short_count(count), full)


def _short_count(count: int) -> str:
    return sentence(phrases.NUMBERS[count] if count else "none") + "."


def count_motion(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    """How many objects move in one way."""
    motion = _asked_motion(facts, rng)
    count = sum(thing["motion"] == motion for thing in facts["objects"])
    base, number = words.BASE_MOTIONS[motion], sentence(phrases.NUMBERS[count])
    full = f"{number} objects {base}."
    if count < 2:
        full = f"{number} object {phrases.MOTION_PHRASES[motion][0]}."
    return Asked(f"How many objects {base}?", _short_count(count), full)


def _count_at_end(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    when = draw(rng, (" at the start", " at the end"))
    count = sum(when in _ends(thing) for thing in facts["objects"])
    number = sentence(phrases.NUMBERS[count])
    full = f"{number} object{'s' if count > 1 else ''} can be seen{when}."
    return Asked(f"How many objects can be seen{when}?", _short_count(count), full)


def _asked_motion(facts: dict[str, Any], rng: np.random.Generator) -> str:
    """A motion, half of the time one that occurs; never one that is part of a slanting one."""
    seen: list[str] = [thing["motion"] for thing in facts["objects"]]
    doubtful = {part for motion in seen for part in words.PARTS.get(motion, ())}
    known = [motion for motion in seen if motion not in doubtful]
    if known and rng.random() < 0.5:
        return draw(rng, known)
    return draw(rng, [motion for motion in words.BASE_MOTIONS if motion not in doubtful])


def ask_motion(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    """What an object does, or which objects make a motion."""
    if rng.random() < _WHO_SHARE:
        return _ask_who(facts, rng)
    thing = draw(rng, facts["objects"])
    options: tuple[str, ...] = words.MOTION_QUESTIONS
    if any(thing is facts["objects"][event["object"]] for event in facts.get("events", ())):
        options = options[:1]  # what it does could also be that it appears
    motion = thing["motion"]
    return Asked(
        draw(rng, options).format(name=name(thing)),
        words.SHORT_MOTIONS[motion] + ".",
        f"The {name(thing)} {phrases.MOTION_PHRASES[motion][0]}.",
    )


def _ask_who(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    motion = _asked_motion(facts, rng)
    singular = phrases.MOTION_PHRASES[motion][0]
    movers = [name(thing) for thing in facts["objects"] if thing["motion"] == motion]
    if not movers:
        return Asked(f"What {singular}?", "Nothing.", f"Nothing {singular}.")
    verb = singular if len(movers) == 1 else words.BASE_MOTIONS[motion]
    who = sentence(listed(movers))
    return Asked(f"What {singular}?", f"{who}.", f"{who} {verb}.")


def ask_relation(facts: dict[str, Any], rng: np.random.Generator) -> Asked | None:
    """Where two objects are, from left to right or in height, as soon as both are there."""
    found = []
    for one, other in permutations(facts["objects"], 2):
        moment_s = meeting_s(one, other)
        if moment_s is None:
            continue
        (x, y), (other_x, other_y) = where(one, moment_s), where(other, moment_s)
        if abs(x - other_x) >= _ASIDE_PX:
            found.append((one, other, 0, x < other_x))
        if abs(y - other_y) >= ABOVE_PX:
            found.append((one, other, 1, y < other_y))
    if not found:
        return None
    one, other, axis, before = draw(rng, found)
    when = "at the start"
    if any(thing.get("appears_s") is not None for thing in (one, other)):
        when = "when both are first there"
    return draw(rng, (_ask_side, _ask_which))(name(one), name(other), axis, before, when)


def _ask_side(one: str, other: str, axis: int, before: bool, when: str) -> Asked:
    sides, asked = ("above", "below"), "above or below"
    if axis == 0:
        sides, asked = ("to the left of", "to the right of"), "to the left or to the right of"
    side = sides[0 if before else 1]
    return Asked(
        f"Is the {one} {asked} the {other} {when}?",
        sentence(side.removesuffix(" of")) + ".",
        f"The {one} is {side} the {other}.",
    )


def _ask_which(one: str, other: str, axis: int, before: bool, when: str) -> Asked:
    further = "further left" if axis == 0 else "higher up"
    answer = one if before else other
    return Asked(
        f"Which is {further} {when}, the {one} or the {other}?",
        f"The {answer}.",
        f"The {answer} is {further}.",
    )
