"""Tokens that loose verification never loosens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Words that turn or count what is said: a wrong one is never a matter of style.
_NEGATIONS = """
no not never none nor neither without cannot nothing nobody nowhere n't 't yes
"""
_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve both
"""
#: Words that say what something looks like, where it is and goes, how it compares, what comes when.
_COLOURS = """
red orange yellow green blue purple violet pink brown black white gray grey cyan magenta teal navy
maroon beige golden silver dark bright
"""
_PLACES = """
left right up down top bottom upper lower upward upwards downward downwards leftward leftwards
rightward rightwards above below under over behind front beside between inside outside middle
center centre north south east west
"""
_DEGREES = """
small smaller little tiny large larger big bigger long longer short shorter tall taller fast faster
slow slower more less higher lower same different
"""
_ORDER = """
single only first second third last before after start starts begin begins end ends
"""
_ALWAYS = frozenset(f"{_NEGATIONS} {_NUMBERS}".split())
_FACTS = frozenset(f"{_COLOURS} {_PLACES} {_DEGREES} {_ORDER}".split())


def strict_token_ids(tokenizer: Any) -> frozenset[int]:
    """Ids of special tokens, tokens with a digit, negations and number words.

    Args:
        tokenizer: a fast tokenizer of transformers.
    """
    ids = set(tokenizer.get_added_vocab().values())
    for token, text in _texts(tokenizer):
        if text in _ALWAYS or any(character.isdigit() for character in text):
            ids.add(token)
    return frozenset(ids)


def fact_token_ids(tokenizer: Any) -> frozenset[int]:
    """Ids of English words that a fact of a video hangs on: colours, places and directions, sizes
    and comparisons, order in time."""
    return frozenset(token for token, text in _texts(tokenizer) if text in _FACTS)


def _texts(tokenizer: Any) -> Iterator[tuple[int, str]]:
    """Every token with its text, in lower case and without space around it."""
    for token in tokenizer.get_vocab().values():
        yield token, tokenizer.decode([token]).strip().lower()
