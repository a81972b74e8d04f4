"""Questions about what happens in the course of a clip: order and when."""

from __future__ import annotations

from typing import Any

import numpy as np

from vidcap.demo import question_phrases as words
from vidcap.demo.rich_language import event_time
from vidcap.demo.rich_phrases import TIMES
from vidcap.demo.wording import Asked, draw, name, sentence


def ask_when(facts: dict[str, Any], rng: np.random.Generator) -> Asked | None:
    """At which second an event happens; None without events."""
    if not facts.get("events"):
        return None
    event = draw(rng, facts["events"])
    thing = name(facts["objects"][event["object"]])
    does, do = words.EVENT_CLAUSES[event["kind"]]
    when = event_time(event, TIMES[0])
    text = draw(rng, words.WHEN_QUESTIONS).format(name=thing, do=do)
    return Asked(text, sentence(when) + ".", f"The {thing} {does} {when}.")


def ask_order(facts: dict[str, Any], rng: np.random.Generator) -> Asked | None:
    """What comes first or last, or which of two; None where nothing can be put in order."""
    events = facts.get("events") or []
    ways = []
    if len(events) > 1:
        ways += [_ask_open, _ask_choice, _ask_before]
    if any(event["kind"] == "appears" for event in events) and len(facts["objects"]) > 1:
        ways.append(_ask_there_first)
    return draw(rng, ways)(facts, rng) if ways else None


def _ask_open(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    which, at = draw(rng, (("first", 0), ("last", -1)))
    event = facts["events"][at]
    thing = name(facts["objects"][event["object"]])
    does = words.EVENT_CLAUSES[event["kind"]][0]
    text = draw(rng, words.FIRST_EVENT_QUESTIONS).format(which=which)
    return Asked(text, f"The {thing} {does}.", f"The {thing} {does} {which}.")


def _two_events(facts: dict[str, Any], rng: np.random.Generator) -> tuple[dict[str, Any], ...]:
    """Two events in random order."""
    picked = rng.choice(len(facts["events"]), size=2, replace=False)
    return tuple(facts["events"][int(k)] for k in picked)


def _ask_choice(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    one, other = _two_events(facts, rng)
    which, pick = draw(rng, (("first", min), ("last", max)))
    said = pick(one, other, key=lambda event: event["time_s"])
    names = [name(facts["objects"][event["object"]]) for event in (one, other, said)]
    clauses = [words.EVENT_CLAUSES[event["kind"]][0] for event in (one, other, said)]
    text = draw(rng, words.CHOICE_QUESTIONS).format(
        which=which, one=names[0], does=clauses[0], other=names[1], did=clauses[1]
    )
    return Asked(text, f"The {names[2]}.", f"The {names[2]} {clauses[2]} {which}.")


def _ask_before(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    one, other = _two_events(facts, rng)
    names = [name(facts["objects"][event["object"]]) for event in (one, other)]
    does, do = words.EVENT_CLAUSES[one["kind"]]
    did = words.EVENT_CLAUSES[other["kind"]][0]
    word = "before" if one["time_s"] < other["time_s"] else "after"
    return Asked(
        f"Does the {names[0]} {do} before or after the {names[1]} {did}?",
        sentence(word) + ".",
        f"The {names[0]} {does} {word} the {names[1]} {did}.",
    )


def _ask_there_first(facts: dict[str, Any], rng: np.random.Generator) -> Asked:
    """Which of two objects can be seen first or last, one of which is not there at the start."""
    objects = facts["objects"]
    late = draw(rng, [thing for thing in objects if thing["appears_s"] is not None])
    other = draw(rng, [thing for thing in objects if thing is not late])
    pair = (late, other) if rng.random() < 0.5 else (other, late)
    which, pick = draw(rng, (("first", min), ("last", max)))
    said = name(pick(pair, key=lambda thing: thing["appears_s"] or 0.0))
    return Asked(
        f"Which comes into view {which}, the {name(pair[0])} or the {name(pair[1])}?",
        f"The {said}.",
        f"The {said} comes into view {which}.",
    )
