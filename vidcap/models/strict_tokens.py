"""Tokens that loose verification never loosens."""

from __future__ import annotations

from typing import Any

#: Words that turn or count what is said: a wrong one is never a matter of style.
_NEGATIONS = """
no not never none nor neither without cannot nothing nobody nowhere n't 't yes
"""
_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve both single
first second third last only
"""
#: Words that say what something looks like, where it is and where it goes.
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
_TIMES = "before after start starts begin begins end ends"
_STRICT = frozenset(" ".join((_NEGATIONS, _NUMBERS, _COLOURS, _PLACES, _DEGREES, _TIMES)).split())


def strict_token_ids(tokenizer: Any) -> frozenset[int]:
    """Ids of special tokens, tokens with a digit, and English words that a fact may hang on.

    Those are negations, numbers, colours, places and directions, sizes and comparisons, and words
    of order in time.

    Args:
        tokenizer: a fast tokenizer of transformers.
    """
    ids = set(tokenizer.get_added_vocab().values())
    for token in tokenizer.get_vocab().values():
        text = tokenizer.decode([token]).strip().lower()
        if text in _STRICT or any(character.isdigit() for character in text):
            ids.add(token)
    return frozenset(ids)
