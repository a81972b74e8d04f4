"""Captions of scenes of simple motions on a plain or fading background, without events."""

from __future__ import annotations

from typing import Any

from vidcap.demo import phrases as words
from vidcap.demo.wording import Phrasing, article, name, sentence


def plain_caption(facts: dict[str, Any], phrasing: Phrasing) -> str:
    """Overview, one sentence for each object, and how two of them relate."""
    objects = facts["objects"]
    noun = phrasing.pick(words.NOUNS, objects[0]["colour"], objects[-1]["shape"])
    sentences = [_overview(facts, noun, phrasing)]
    sentences += [_object_sentence(thing, k, phrasing) for k, thing in enumerate(objects)]
    if facts["relation"] is None:
        closing = phrasing.pick(words.SINGLE_CLOSINGS, objects[0]["shape"], objects[0]["motion"])
        sentences.append(closing.format(noun=noun, name=name(objects[0])))
    else:
        sentences.append(_relation_sentence(facts, phrasing))
    return " ".join(sentences)


def _overview(facts: dict[str, Any], noun: str, phrasing: Phrasing) -> str:
    count = len(facts["objects"])
    background = facts["background"]
    template = phrasing.pick(words.OVERVIEWS, *background["colours"], str(count))
    number = words.NUMBERS[count]
    if count == 1:
        number = phrasing.pick(("one", "a single"), *background["colours"])
    return template.format(
        count=number,
        Count=number.capitalize(),
        noun=noun if count == 1 else noun + "s",
        be="is" if count == 1 else "are",
        appear="appears" if count == 1 else "appear",
        background=plain_background(background, phrasing),
    )


def plain_background(background: dict[str, Any], phrasing: Phrasing) -> str:
    """What a background of one colour or of two that blend is called."""
    colours = background["colours"]
    if background["axis"] is None:
        return phrasing.pick(words.PLAIN_BACKGROUNDS, *colours).format(first=colours[0])
    start, end = words.AXIS_ENDS[background["axis"]]
    template = phrasing.pick(words.GRADIENT_BACKGROUNDS, *colours)
    return template.format(first=colours[0], last=colours[1], start=start, end=end)


def _object_sentence(thing: dict[str, Any], position: int, phrasing: Phrasing) -> str:
    colour, shape, motion = thing["colour"], thing["shape"], thing["motion"]
    size = phrasing.pick(words.SIZE_WORDS[thing["size"]], thing["size"], shape)
    verb = phrasing.pick(words.MOTION_PHRASES[motion], motion, colour, shape)
    if thing["place"] is not None:
        place = phrasing.pick(words.PLACE_PHRASES, thing["place"], colour)
        verb += " " + place.format(place=thing["place"])
        verb += phrasing.pick(words.STILL_TAILS, shape, thing["size"])
    else:
        verb += phrasing.pick(words.MOVING_TAILS, shape, motion)
    openers = words.LATER_OPENERS if position else words.FIRST_OPENERS
    text = phrasing.pick(openers, colour, motion)
    text += phrasing.pick(words.OBJECT_SENTENCES, colour, shape).format(
        a_size=article(size),
        a_colour=article(colour),
        size=size,
        colour=colour,
        shape=shape,
        motion=verb,
    )
    return sentence(text)


def _relation_sentence(facts: dict[str, Any], phrasing: Phrasing) -> str:
    relation = facts["relation"]
    first = facts["objects"][relation["first"]]
    second = facts["objects"][relation["second"]]
    options = words.RELATION_SENTENCES[relation["kind"]]
    template = phrasing.pick(options, relation["kind"], first["shape"], second["colour"])
    return template.format(first=name(first), second=name(second))
