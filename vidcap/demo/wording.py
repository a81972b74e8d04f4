"""Choosing among phrasings, and how objects are named."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

_T = TypeVar("_T")

#: How often a phrasing is drawn by chance instead of following from the scene.
CHANCE = 0.2


class Phrasing:
    """Chooses among phrasings, mostly by content."""

    def __init__(self, rng: np.random.Generator):
        self._rng = rng

    def pick(self, options: Sequence[str], *content: str) -> str:
        """One of ``options``: the one that belongs to ``content``, now and then any."""
        if self._rng.random() < CHANCE:
            return options[int(self._rng.integers(len(options)))]
        return options[zlib.crc32(" ".join(content).encode()) % len(options)]


def draw(rng: np.random.Generator, options: Sequence[_T]) -> _T:
    """One of ``options``, each equally likely."""
    return options[int(rng.integers(len(options)))]


def name(thing: dict[str, Any]) -> str:
    """What an object is called when it is referred to: colour and shape."""
    return f"{thing['colour']} {thing['shape']}"


def article(word: str) -> str:
    """The indefinite article of an English word."""
    return "an" if word[0] in "aeiou" else "a"


def listed(names: Sequence[str]) -> str:
    """``the red ring``, ``the red ring and the blue star`` and so on."""
    things = [f"the {each}" for each in names]
    return " and ".join([", ".join(things[:-1]), things[-1]] if len(things) > 1 else things)


def sentence(text: str) -> str:
    """The text with a capital letter in front."""
    return text[0].upper() + text[1:]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its answer in a few words and in a full sentence."""

    text: str
    short: str
    full: str
