from __future__ import annotations

from collections.abc import Sequence

import pytest

from vidcap.bench.facts import fact_counts, is_right, rejections_on_facts
from vidcap.bench.watch import Rejection
from vidcap.demo.scenes import sample_scene, truth

TEXT = "The video shows two objects on a teal background. A small red circle moves to the left."


@pytest.mark.parametrize(
    ("expected", "text", "right"),
    [
        ("two", "There are two objects.", True),
        ("two", "Two!", True),
        ("two", "There are twofold objects.", False),
        ("to the left", "It moves to the left.", True),
        ("to the left", "It moves left, to the edge.", False),
        ("The star is red.", "the star is red", True),
        ("The star is red.", "The star is red and blue.", False),
        ("", "anything", False),
    ],
)
def test_short_answers_may_stand_anywhere_and_long_ones_are_the_text(
    expected: str, text: str, right: bool
) -> None:
    assert is_right(expected, text) is right


def test_facts_are_counted_by_kind() -> None:
    scene = truth(sample_scene(4))
    counts = fact_counts(scene, "")
    assert counts["count"] == (0, 0, 1)
    assert sum(wrong for _, wrong, _ in counts.values()) == 0
    assert fact_counts(scene, "A purple heart.")["shape"] != counts["shape"]


class Words:
    """A tokenizer of whole words and single letters."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def encode(self, *pieces: str) -> list[int]:
        self._pieces += pieces
        return list(range(len(self._pieces) - len(pieces), len(self._pieces)))

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self._pieces[token] for token in tokens)


def count(at: str, *drafted: str, text: str = TEXT) -> int:
    """What a mismatch at a piece of the text counts as."""
    words = Words()
    begin = text.index(at)
    pieces = [text[:begin], text[begin : begin + len(at)], text[begin + len(at) :]]
    tokens = words.encode(*pieces)
    return rejections_on_facts(tokens, [Rejection(1, tuple(words.encode(*drafted)))], words.decode)


@pytest.mark.parametrize(
    ("at", "drafted", "on_fact"),
    [
        (" red", [" blue"], 1),
        (" left", [" right"], 1),
        (" two", [" three"], 1),
        (" teal", [" navy"], 1),
        (" small", [" large"], 1),
        (" small", [" little"], 0),
        (" moves", [" drifts"], 0),
        (" video", [" clip"], 0),
        (" objects", [" shapes"], 0),
        (".", [" and"], 0),
        (" red", ["."], 0),
        # Words of several tokens are read to their end, on either side.
        (" r", [" or", "ange"], 1),
        (" sm", [" lit", "tle", " blue"], 0),
        ("ed", ["ing"], 1),
    ],
)
def test_a_mismatch_is_on_a_fact_where_the_drafts_word_changes_what_is_claimed(
    at: str, drafted: list[str], on_fact: int
) -> None:
    assert count(at, *drafted) == on_fact


def test_a_mismatch_behind_the_text_is_on_no_fact() -> None:
    words = Words()
    tokens, more = words.encode(TEXT, ""), words.encode(" It")
    assert rejections_on_facts(tokens, [Rejection(1, tuple(more))], words.decode) == 0
    assert rejections_on_facts(tokens, [], words.decode) == 0
