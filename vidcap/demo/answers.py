"""Whether an answer to a question is right.

Answers are read, not compared word by word: "To the left.", "The red circle is to the left of the
blue star." and "The blue star is to the right of the red circle." say the same. An answer that
speaks of another object than the question, contradicts itself or says nothing definite is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from vidcap.demo.answer_words import (
    Name,
    colours_in,
    ends_in,
    facts_in,
    is_negated,
    names_in,
    numbers_in,
    shapes_in,
    sizes_in,
    without_names,
)
from vidcap.demo.events import TOLERANCE_S, event_kinds, read_second
from vidcap.demo.questions import Question
from vidcap.demo.reading import CONFLICT, motions_in, read_motion

_LEAD = re.compile(r"(yes|no)\b(?=\s*(?:[,.;:!]|$)|\s+(?:it|there|they|the)\b)[\s,.;:!]*")
_SIDES = re.compile(r"\b(left|right|above|below|higher|lower|under)\b")
_SIDE_NAMES = {"higher": "above", "lower": "below", "under": "below"}
_OPPOSITES = {
    word: other
    for pair in (
        ("left", "right"),
        ("above", "below"),
        ("first", "last"),
        ("larger", "smaller"),
        ("before", "after"),
    )
    for word, other in (pair, pair[::-1])
}
_NOBODY = re.compile(r"\b(?:nothing|none|no objects?)\b")
_LIKENESS = re.compile(r"\bsame\b|\bdiffer|\bopposite\b|\blarger\b|\bsmaller\b|\bbigger\b|\bdo\b")
_EXISTS = re.compile(r"\bthere\b|\bsee\b|\bseen\b|\bvisible\b")
_THE = re.compile(r"\bthe\b")
_UNLIKE = re.compile(r"\b(?:differ|different|opposite|larger|smaller|bigger)\b")


def score_answer(asked: Question, text: str) -> bool:
    """Whether a text, in a few words or in a sentence, says the same as a question's own answer.

    A time may be off by :data:`vidcap.demo.events.TOLERANCE_S` seconds. A bare "yes" to a negated
    question ("Is there no red circle?") confirms the negation.
    """
    question = _clean(asked.text.split("?")[0])
    read = _READERS[asked.kind]
    expected, given = read(question, _clean(asked.answer)), read(question, _clean(text))
    if asked.kind == "when" and expected is not None and given is not None:
        return bool(abs(expected - given) <= TOLERANCE_S)
    return given is not None and bool(given == expected)


def _clean(text: str) -> str:
    return " ".join(text.lower().split())


def _strays(question: str, text: str) -> bool:
    """Whether a text speaks of objects, or an end of the clip, that the question does not name."""
    return (
        not set(names_in(text)) <= set(names_in(question))
        or not shapes_in(text) <= shapes_in(question)
        or not ends_in(text) <= ends_in(question)
    )


def _colour(question: str, text: str) -> frozenset[str] | None:
    if not shapes_in(text) <= shapes_in(question) or not ends_in(text) <= ends_in(question):
        return None
    return None if is_negated(text) else colours_in(text) or None


def _count(question: str, text: str) -> int | None:
    same = motions_in(text) <= motions_in(question) and sizes_in(text) <= sizes_in(question)
    numbers = numbers_in(text)
    if not same or _strays(question, text) or len(numbers) != 1:
        return None
    return next(iter(numbers))


def _motion(question: str, text: str) -> str | frozenset[Name] | None:
    if question.startswith("what ") and not question.startswith("what does"):
        return _movers(question, text)
    motion = read_motion(without_names(text))
    if motion == CONFLICT or _strays(question, text):
        return None
    return None if is_negated(text) and motion != "still" else motion


def _movers(question: str, text: str) -> frozenset[Name] | None:
    names, nobody = frozenset(names_in(text)), bool(_NOBODY.search(text))
    said = read_motion(without_names(text))
    if said not in (None, read_motion(question)) or bool(names) == nobody:
        return None
    if names and is_negated(text):
        return None
    return names


def _order(question: str, text: str) -> Any:
    if "before or after" in question:
        return _before_or_after(question, text)
    kinds = event_kinds(text)
    names = names_in(text)
    if not names_in(question):  # open: the event itself is asked for
        alone = len(set(names)) == len(kinds) == 1 and not is_negated(text)
        return (names[0], kinds[0]) if alone and _same_end(question, text) else None
    chosen = _chosen(question, text, "last" if "last" in question else "first")
    allowed = {"appears"}
    for clause in question.split(":")[-1].split(" or "):
        if chosen in names_in(clause):
            allowed |= set(event_kinds(clause))
    return chosen if set(kinds) <= allowed else None


def _same_end(question: str, text: str) -> bool:
    """Whether a text does not say "last" where the first was asked for, or the reverse."""
    word = "last" if re.search(r"\blast\b", question) else "first"
    return not re.search(rf"\b{_OPPOSITES[word]}\b", text)


def _before_or_after(question: str, text: str) -> str | None:
    words = set(re.findall(r"\b(?:before|after)\b", text))
    names, asked = names_in(text), names_in(question)
    if len(words) != 1 or not set(event_kinds(text)) <= set(event_kinds(question)):
        return None
    if not set(names) <= set(asked):
        return None
    word = str(words.pop())
    turned = bool(names) and names[0] == asked[1] and len(names) > 1
    return _turned(word, turned != is_negated(text))


def _turned(word: str, turn: bool) -> str:
    return _OPPOSITES[word] if turn else word


def _chosen(question: str, text: str, word: str) -> Name | None:
    """Which of the two objects of a question a text says that ``word`` is true of.

    The one that the text names first, unless it denies that or uses the opposite word.
    """
    asked, names = names_in(question), names_in(text)
    if not names or not set(names) <= set(asked) or len(asked) != 2:
        return None
    opposite = re.search(rf"\b{_OPPOSITES[word]}\b", text) if word in _OPPOSITES else None
    turn = bool(opposite) != is_negated(text)
    return asked[1 - asked.index(names[0])] if turn else names[0]


def _relation(question: str, text: str) -> Name | str | None:
    if question.startswith("which"):
        return _chosen(question, _even(text), "left" if "left" in question else "above")
    sides = {_SIDE_NAMES.get(word, word): at for word, at in _sides(text)}
    names, asked = names_in(text), names_in(question)
    if len(sides) != 1 or not set(names) <= set(asked) or len(set(asked)) != 2:
        return None
    side, at = next(iter(sides.items()))
    turn = is_negated(text)
    if names:
        subject = text.find(" ".join(names[0])) < at
        turn ^= (names[0] == asked[0]) != subject
    return _turned(side, turn)


def _sides(text: str) -> list[tuple[str, int]]:
    return [(match[1], match.start()) for match in _SIDES.finditer(text)]


def _even(text: str) -> str:
    """The text with one word for each direction."""
    return _SIDES.sub(lambda match: _SIDE_NAMES.get(match[1], match[1]), text)


def _yes_no(question: str, text: str) -> bool | None:
    """Whether a text says that what was asked for is so, the negation of the question left out."""
    lead = _LEAD.match(text)
    content = text[lead.end() :] if lead else text
    denied = is_negated(question)
    if not content:
        return (lead[1] == "yes") != denied if lead else None
    if _beside_the_point(question, content):
        return None
    said = not (is_negated(content) or ("same" in question and bool(_UNLIKE.search(content))))
    if not facts_in(content) <= facts_in(question):
        return False if lead and lead[1] == "no" and not denied and said else None
    if not lead and not (set(content.split()) & {"it", "they", "there", "the"}):
        return None
    if lead and not denied and (lead[1] == "yes") != said:
        return None
    return said


def _beside_the_point(question: str, content: str) -> bool:
    """Whether a sentence is about other objects, or about something else than was asked."""
    if not set(names_in(content)) <= set(names_in(question)):
        return True
    if "same" in question:
        return not _LIKENESS.search(content)
    exists = _EXISTS.search(question) is not None
    return exists and bool(_THE.search(content)) and not _EXISTS.search(content)


def _when(question: str, text: str) -> int | None:
    if _strays(question, text) or not set(event_kinds(text)) <= set(event_kinds(question)):
        return None
    second = read_second(text)
    if second is not None:
        return second
    numbers = numbers_in(text)
    return next(iter(numbers)) if len(numbers) == 1 and not is_negated(text) else None


def _compare(question: str, text: str) -> Name | bool | None:
    if not question.startswith("which"):
        return _yes_no(question, text)
    word = next((word for word in ("larger", "smaller") if word in question), "moves")
    return _chosen(question, text.replace("bigger", "larger"), word)


_READERS: dict[str, Callable[[str, str], Any]] = {
    "colour": _colour,
    "count": _count,
    "motion": _motion,
    "order": _order,
    "relation": _relation,
    "yes/no": _yes_no,
    "when": _when,
    "compare": _compare,
}
