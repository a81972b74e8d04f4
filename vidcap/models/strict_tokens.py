"""Tokens that loose verification never loosens."""

from __future__ import annotations

from typing import Any

#: Words that turn or count what is said: a wrong one is never a matter of style.
_NEGATIONS = {"not", "no", "never", "none", "nor", "neither", "without", "cannot", "nothing"}
_NEGATIONS |= {"nobody", "nowhere", "n't", "'t"}
_NUMBERS = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}
_NUMBERS |= {"eleven", "twelve", "both"}


def strict_token_ids(tokenizer: Any) -> frozenset[int]:
    """Ids of special tokens, tokens with a digit, negations and number words.

    Args:
        tokenizer: a fast tokenizer of transformers.
    """
    ids = set(tokenizer.get_added_vocab().values())
    for token in tokenizer.get_vocab().values():
        text = tokenizer.decode([token]).strip().lower()
        if text in _NEGATIONS | _NUMBERS or any(character.isdigit() for character in text):
            ids.add(token)
    return frozenset(ids)
