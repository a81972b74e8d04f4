"""The words of facts in questions and answers, in lower case."""

from __future__ import annotations

import re

from vidcap.demo.events import event_kinds
from vidcap.demo.phrases import NUMBERS, SIZE_WORDS
from vidcap.demo.reading import motions_in
from vidcap.demo.world import BACKGROUND_COLOURS, COLOURS, SHAPES

#: Colour and shape.
Name = tuple[str, str]

_COLOUR = "|".join((*COLOURS, *BACKGROUND_COLOURS))
_SHAPE = "|".join(SHAPES)
_COLOUR_WORD = re.compile(rf"\b(?:{_COLOUR})\b")
_SHAPE_WORD = re.compile(rf"\b({_SHAPE})(?:e?s)?\b")
_NAMED = re.compile(rf"\b({_COLOUR}) ({_SHAPE})\b")
_NEGATION = re.compile(r"\b(?:not|no|none|never|nothing|neither|cannot)\b|n't\b")
_ENDS = re.compile(r"\bat the (start|end)\b")
_WORDS = {**{word: k for k, word in enumerate(NUMBERS)}, "none": 0, "nothing": 0, "zero": 0}
_NUMBER = re.compile(rf"\b(?!no\W*$|no,)(\d+|{'|'.join(_WORDS)})\b")
_SINGLE = re.compile(r"\b(?:a|an|single)\b")
_NOT_MOVING = re.compile(r"\bnot mov(?:e|ing)\b")


def names_in(text: str) -> list[Name]:
    """The objects that a text names by colour and shape, in the order of the text."""
    return [(colour, shape) for colour, shape in _NAMED.findall(text)]


def without_names(text: str) -> str:
    """The text without the names of objects: "circle" is no way to move."""
    return _NAMED.sub("it", text)


def colours_in(text: str) -> frozenset[str]:
    """The colours of a text, those of backgrounds included."""
    return frozenset(_COLOUR_WORD.findall(text))


def shapes_in(text: str) -> frozenset[str]:
    """The shapes of a text, in the singular."""
    return frozenset(_SHAPE_WORD.findall(text))


def sizes_in(text: str) -> frozenset[str]:
    """The size classes of a text."""
    words = text.replace(",", " ").replace(".", " ").split()
    return frozenset(size for size, names in SIZE_WORDS.items() if set(names) & set(words))


def ends_in(text: str) -> frozenset[str]:
    """``start`` and ``end``, where a text speaks of these moments of the clip."""
    return frozenset(_ENDS.findall(text))


def numbers_in(text: str) -> frozenset[int]:
    """The numbers of a text, "no" and "none" as zero, and "a" as one where there is no other."""
    words = _NUMBER.findall(text)
    numbers = frozenset(_WORDS[word] if word in _WORDS else int(word[:9]) for word in words)
    return numbers or (frozenset((1,)) if _SINGLE.search(text) else numbers)


def is_negated(text: str) -> bool:
    """Whether a text denies something."""
    return _NEGATION.search(text) is not None


def facts_in(text: str) -> frozenset[str]:
    """All words of facts: colours, shapes, sizes, motions and events."""
    motions = motions_in(without_names(text))
    if _NOT_MOVING.search(text):
        motions -= {"still"}
    return colours_in(text) | shapes_in(text) | sizes_in(text) | motions | set(event_kinds(text))
