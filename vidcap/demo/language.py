"""Captions, questions and answers for rendered scenes.

What a caption says is fixed by the scene, and so is the order (background, objects from left to
right, a relation). How it is said depends on the scene too, through a hash of its facts, and to a
smaller part on chance: a good model learns most of the phrasing, and a draft that guesses differs
from its target in fillers more than in facts.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from vidcap.demo import phrases as words
from vidcap.demo.scenes import truth
from vidcap.demo.world import COLOURS, MOTIONS, SHAPES, Scene
from vidcap.settings import DEFAULT_DESCRIBE_PROMPT

#: Requests that a caption answers.
DESCRIBE_PROMPTS: tuple[str, ...] = (
    DEFAULT_DESCRIBE_PROMPT,
    "Describe the video.",
    "Describe this clip in detail.",
    "What happens in this video?",
    "What can be seen in the video?",
    "Write a caption for this video.",
)

#: How often a phrasing is drawn by chance instead of following from the scene.
CHANCE = 0.2


class _Phrasing:
    """Chooses among phrasings, mostly by content."""

    def __init__(self, rng: np.random.Generator):
        self._rng = rng

    def pick(self, options: tuple[str, ...], *content: str) -> str:
        if self._rng.random() < CHANCE:
            return options[int(self._rng.integers(len(options)))]
        return options[zlib.crc32(" ".join(content).encode()) % len(options)]


def caption(scene: Scene, rng: np.random.Generator) -> str:
    """A caption of several sentences: overview, each object, and how two of them relate."""
    facts = truth(scene)
    phrasing = _Phrasing(rng)
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


def name(thing: dict[str, Any]) -> str:
    """What an object is called when it is referred to: colour and shape."""
    return f"{thing['colour']} {thing['shape']}"


def article(word: str) -> str:
    """The indefinite article of an English word."""
    return "an" if word[0] in "aeiou" else "a"


def _overview(facts: dict[str, Any], noun: str, phrasing: _Phrasing) -> str:
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
        background=_background(background, phrasing),
    )


def _background(background: dict[str, Any], phrasing: _Phrasing) -> str:
    colours = background["colours"]
    if background["axis"] is None:
        return phrasing.pick(words.PLAIN_BACKGROUNDS, *colours).format(first=colours[0])
    start, end = words.AXIS_ENDS[background["axis"]]
    template = phrasing.pick(words.GRADIENT_BACKGROUNDS, *colours)
    return template.format(first=colours[0], last=colours[1], start=start, end=end)


def _object_sentence(thing: dict[str, Any], position: int, phrasing: _Phrasing) -> str:
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
    sentence = phrasing.pick(openers, colour, motion)
    sentence += phrasing.pick(words.OBJECT_SENTENCES, colour, shape).format(
        a_size=article(size),
        a_colour=article(colour),
        size=size,
        colour=colour,
        shape=shape,
        motion=verb,
    )
    return sentence[0].upper() + sentence[1:]


def _relation_sentence(facts: dict[str, Any], phrasing: _Phrasing) -> str:
    relation = facts["relation"]
    first = facts["objects"][relation["first"]]
    second = facts["objects"][relation["second"]]
    options = words.RELATION_SENTENCES[relation["kind"]]
    template = phrasing.pick(options, relation["kind"], first["shape"], second["colour"])
    return template.format(first=name(first), second=name(second))


def questions(scene: Scene, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Questions of several kinds about a scene, each with its answer in a full sentence.

    The phrasing of a question is drawn by chance; its answer follows from the scene. The color
    question is left out where no shape is unique.
    """
    facts = truth(scene)
    asked = [
        _ask_colour(facts, rng),
        _ask_count(facts, rng),
        _ask_motion(facts, rng),
        _ask_who(facts, rng),
        _ask_size(facts, rng),
        _ask_background(facts, rng),
        _ask_exists(facts, rng),
    ]
    return [pair for pair in asked if pair is not None]


def _draw(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def _ask_colour(facts: dict[str, Any], rng: np.random.Generator) -> tuple[str, str] | None:
    shapes = [thing["shape"] for thing in facts["objects"]]
    unique = [thing for thing in facts["objects"] if shapes.count(thing["shape"]) == 1]
    if not unique:
        return None
    thing = _draw(rng, unique)
    question = _draw(rng, words.COLOUR_QUESTIONS).format(shape=thing["shape"])
    return question, f"The {thing['shape']} is {thing['colour']}."


def _ask_count(facts: dict[str, Any], rng: np.random.Generator) -> tuple[str, str]:
    count = len(facts["objects"])
    answer = "There is one object." if count == 1 else f"There are {words.NUMBERS[count]} objects."
    return _draw(rng, words.COUNT_QUESTIONS), answer


def _ask_motion(facts: dict[str, Any], rng: np.random.Generator) -> tuple[str, str]:
    thing = _draw(rng, facts["objects"])
    question = _draw(rng, words.MOTION_QUESTIONS).format(name=name(thing))
    return question, f"The {name(thing)} {words.MOTION_PHRASES[thing['motion']][0]}."


def _ask_who(facts: dict[str, Any], rng: np.random.Generator) -> tuple[str, str]:
    """Half of the time about a motion that occurs."""
    if rng.random() < 0.5:
        motion = _draw(rng, facts["objects"])["motion"]
    else:
        motion = _draw(rng, tuple(MOTIONS))
    singular = words.MOTION_PHRASES[motion][0]
    movers = ["the " + name(thing) for thing in facts["objects"] if thing["motion"] == motion]
    if not movers:
        answer = f"Nothing {singular}."
    elif len(movers) == 1:
        answer = f"{movers[0].capitalize()} {singular}."
    else:
        listed = ", ".join(movers[:-1]) + " and " + movers[-1]
        answer = f"{listed.capitalize()} {words.PLURAL_MOTIONS[motion]}."
    return f"What {singular}?", answer


def _ask_size(facts: dict[str, Any], rng: np.random.Generator) -> tuple[str, str]:
    thing = _draw(rng, facts["objects"])
    question = _draw(rng, words.SIZE_QUESTIONS).format(name=name(thing))
    return question, f"The {name(thing)} is {thing['size']}."


def _ask_background(facts: dict[str, Any], rng: np.random.Generator) -> tuple[str, str]:
    background = facts["background"]
    colours = background["colours"]
    question = _draw(rng, words.BACKGROUND_QUESTIONS)
    if background["axis"] is None:
        return question, f"The background is plain {colours[0]}."
    start, end = words.AXIS_ENDS[background["axis"]]
    return question, f"The background fades from {colours[0]} {start} to {colours[1]} {end}."


def _ask_exists(facts: dict[str, Any], rng: np.random.Generator) -> tuple[str, str]:
    """About an object of the scene, or about one that differs from it in colour or shape."""
    thing = dict(_draw(rng, facts["objects"]))
    if rng.random() < 0.5:
        key, options = _draw(rng, (("colour", tuple(COLOURS)), ("shape", SHAPES)))
        thing[key] = _draw(rng, options)
    there = any(name(other) == name(thing) for other in facts["objects"])
    a = article(thing["colour"])
    question = _draw(rng, words.EXISTS_QUESTIONS).format(a=a, name=name(thing))
    if there:
        return question, f"Yes, there is {a} {name(thing)}."
    return question, f"No, there is no {name(thing)}."
