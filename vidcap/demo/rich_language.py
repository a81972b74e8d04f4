"""Captions of rich scenes, with events, patterned backgrounds and every motion; brief captions."""

from __future__ import annotations

from typing import Any

from vidcap.demo import phrases, rich_phrases
from vidcap.demo.plain_language import plain_background
from vidcap.demo.wording import Phrasing, article, name, sentence

#: Objects and events of a scene up to which its caption may have an aside.
_ASIDE_UP_TO = 3


def is_rich(facts: dict[str, Any]) -> bool:
    """Whether a scene has anything that a plain caption cannot tell."""
    return (
        bool(facts.get("events"))
        or facts["background"]["kind"] in rich_phrases.PATTERNED_BACKGROUNDS
        or any(thing["motion"] not in phrases.SIMPLE_MOTIONS for thing in facts["objects"])
        or (facts["relation"] is None and len(facts["objects"]) > 1)
    )


def rich_caption(facts: dict[str, Any], phrasing: Phrasing) -> str:
    """Overview, each object, events in order of time with their second, and a relation."""
    objects, events = facts["objects"], facts["events"]
    noun = phrasing.pick(phrases.NOUNS, objects[0]["colour"], objects[-1]["shape"])
    sentences = [_overview(facts, noun, phrasing)]
    if len(objects) + len(events) <= _ASIDE_UP_TO:
        sentences.append(
            phrasing.pick(rich_phrases.ASIDES, objects[0]["shape"], objects[0]["motion"])
        )
    sentences += [_object_sentence(thing, k, phrasing) for k, thing in enumerate(objects)]
    sentences += [
        _event_sentence(event, objects[event["object"]], k, phrasing)
        for k, event in enumerate(events)
    ]
    sentences.append(_closing(facts, noun, phrasing))
    return " ".join(text for text in sentences if text)


def brief_caption(facts: dict[str, Any], phrasing: Phrasing) -> str:
    """One sentence: the background, and what each object is and does."""
    objects = facts["objects"]
    things = [_brief_thing(thing, phrasing) for thing in objects]
    joined = " and ".join([", ".join(things[:-1]), things[-1]] if len(things) > 1 else things)
    template = phrasing.pick(rich_phrases.BRIEF_SENTENCES, objects[0]["colour"], str(len(objects)))
    return template.format(
        background=_background(facts["background"], phrasing),
        things=joined,
        be="is" if len(objects) == 1 else "are",
    )


def event_verb(thing: dict[str, Any], template: str) -> str:
    """What happens to an object, in the words of a template of ``EVENT_VERBS``."""
    return template.format(old=thing["colour"], new=thing.get("becomes"))


def event_time(event: dict[str, Any], template: str) -> str:
    """When an event happens, to the second."""
    n = round(event["time_s"])
    return template.format(n=n, seconds="second" if n == 1 else "seconds")


def _overview(facts: dict[str, Any], noun: str, phrasing: Phrasing) -> str:
    count = len(facts["objects"])
    colours = facts["background"]["colours"]
    template = phrasing.pick(rich_phrases.OVERVIEWS, *colours, str(count))
    number = phrases.NUMBERS[count]
    if count == 1:
        number = phrasing.pick(("one", "a single"), *colours)
    return template.format(
        count=number,
        Count=number.capitalize(),
        noun=noun if count == 1 else noun + "s",
        be="is" if count == 1 else "are",
        background=_background(facts["background"], phrasing),
    )


def _background(background: dict[str, Any], phrasing: Phrasing) -> str:
    if background["kind"] not in rich_phrases.PATTERNED_BACKGROUNDS:
        return plain_background(background, phrasing)
    colours = background["colours"]
    options = rich_phrases.PATTERNED_BACKGROUNDS[background["kind"]]
    return phrasing.pick(options, *colours).format(first=colours[0], last=colours[-1])


def _motion(thing: dict[str, Any], phrasing: Phrasing) -> str:
    motion = thing["motion"]
    return phrasing.pick(
        phrases.MOTION_PHRASES[motion], motion, str(thing["colour"]), str(thing["shape"])
    )


def _tail(motion: str) -> tuple[str, ...]:
    kinds = {
        "still": "still",
        "circling": "around",
        "bouncing": "around",
        "growing": "resizing",
        "shrinking": "resizing",
    }
    return rich_phrases.TAILS[kinds.get(motion, "straight")]


def _object_sentence(thing: dict[str, Any], position: int, phrasing: Phrasing) -> str:
    colour, shape, motion = thing["colour"], thing["shape"], thing["motion"]
    verb = _motion(thing, phrasing)
    tail = phrasing.pick(_tail(motion), motion, shape)
    opener = phrasing.pick(_openers(thing, position), colour, motion)
    noun_phrase = _noun_phrase(thing, phrasing)
    options, place = rich_phrases.OBJECT_SENTENCES, ""
    if thing["place"] is not None:
        place = phrasing.pick(phrases.PLACE_PHRASES, thing["place"], colour)
        place = place.format(place=thing["place"])
        if phrasing.pick(("before", "behind", "behind"), shape, thing["place"]) == "before":
            options = rich_phrases.PLACED_SENTENCES
        else:
            verb += " " + place
    template = phrasing.pick(options, colour, shape)
    text = template.format(thing=noun_phrase, motion=verb + tail, place=place)
    return sentence(opener + text)


def _openers(thing: dict[str, Any], position: int) -> tuple[str, ...]:
    if thing["appears_s"] is not None:
        return rich_phrases.LATE_OPENERS
    return rich_phrases.NEXT_OPENERS if position else rich_phrases.FIRST_OPENERS


def _noun_phrase(thing: dict[str, Any], phrasing: Phrasing) -> str:
    colour, shape = thing["colour"], thing["shape"]
    if thing["size"] is None:
        return f"{article(colour)} {colour} {shape}"
    size = phrasing.pick(phrases.SIZE_WORDS[thing["size"]], thing["size"], shape)
    template = phrasing.pick(rich_phrases.SIZED_THINGS, colour, thing["size"])
    return template.format(
        a_size=article(size), a_colour=article(colour), size=size, colour=colour, shape=shape
    )


def _event_sentence(
    event: dict[str, Any], thing: dict[str, Any], position: int, phrasing: Phrasing
) -> str:
    colour, shape, kind = thing["colour"], thing["shape"], event["kind"]
    verb = phrasing.pick(rich_phrases.EVENT_VERBS[kind], kind, colour)
    when = phrasing.pick(rich_phrases.TIMES, kind, shape)
    text = phrasing.pick(rich_phrases.EVENT_SENTENCES, colour, shape, kind).format(
        name=name(thing),
        verb=event_verb(thing, verb),
        when=event_time(event, when),
    )
    opener = phrasing.pick(rich_phrases.LATER_EVENT_OPENERS, shape, kind) if position else ""
    return sentence(opener + text)


def _closing(facts: dict[str, Any], noun: str, phrasing: Phrasing) -> str:
    objects, relation = facts["objects"], facts["relation"]
    if len(objects) == 1:
        only = objects[0]
        closing = phrasing.pick(phrases.SINGLE_CLOSINGS, only["shape"], only["motion"])
        return closing.format(noun=noun, name=name(only))
    if relation is None:
        return phrasing.pick(rich_phrases.OPEN_CLOSINGS, objects[0]["shape"], objects[1]["colour"])
    first, second = objects[relation["first"]], objects[relation["second"]]
    options = phrases.RELATION_SENTENCES[relation["kind"]]
    if any(thing["appears_s"] is not None for thing in (first, second)):
        options = rich_phrases.LATE_RELATION_SENTENCES.get(relation["kind"], options)
    template = phrasing.pick(options, relation["kind"], first["shape"], second["colour"])
    return template.format(first=name(first), second=name(second))


def _brief_thing(thing: dict[str, Any], phrasing: Phrasing) -> str:
    colour, shape = thing["colour"], thing["shape"]
    template = phrasing.pick(rich_phrases.BRIEF_THINGS, shape, thing["motion"])
    return template.format(
        a_colour=article(colour), colour=colour, shape=shape, motion=_motion(thing, phrasing)
    )
