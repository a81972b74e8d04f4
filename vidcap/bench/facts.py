"""What texts get right: facts of captions, answers to questions, and where a draft errs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vidcap.bench.watch import Rejection
from vidcap.demo.reading import read_claims
from vidcap.demo.score import score_caption

#: (right, wrong, missing)
Counts = tuple[int, int, int]

#: An expected answer of at most so many words may stand anywhere in a longer one.
_SHORT_ANSWER = 3

_WORD = re.compile(r"\w+")


def fact_counts(truth: Mapping[str, Any], text: str) -> dict[str, Counts]:
    """(right, wrong, missing) facts of a caption per kind of fact."""
    return dict(score_caption(dict(truth), text).by_kind)


def is_right(expected: str, text: str) -> bool:
    """Whether an answer says what was expected.

    Case and punctuation do not count. An expected answer of up to three words only has to occur in
    the text, as whole words; a longer one has to be the text.
    """
    wanted, given = (_WORD.findall(words.lower()) for words in (expected, text))
    if not wanted:
        return False
    if len(wanted) > _SHORT_ANSWER:
        return wanted == given
    width = len(wanted)
    return any(given[k : k + width] == wanted for k in range(len(given) - width + 1))


def rejections_on_facts(
    tokens: Sequence[int],
    rejections: Sequence[Rejection],
    decode: Callable[[Sequence[int]], str],
) -> int:
    """How many of a draft's first mismatches concern a fact of the text.

    A mismatch is a round's first place where the draft's choice is not the target's. It concerns a
    fact where the text with the draft's word in place of the target's makes other claims about the
    scene than the text itself does, as ``vidcap.demo.reading.read_claims`` reads them. So a synonym
    does not count, and neither does a word without which the text claims the same. A word that
    merely leads to another phrasing ("falls" or "drifts downwards") does count where the claim gets
    lost in the exchange: the figure errs upwards.

    Args:
        tokens: the target's text.
        rejections: where the draft differed.
        decode: token ids to text.
    """
    text = decode(tokens)
    claims = read_claims(text)
    count = 0
    for rejection in rejections:
        begin = len(decode(tokens[: rejection.position]))
        drafted = decode([*tokens[: rejection.position], *rejection.drafted])
        ours, theirs = _word_from(text, begin), _word_from(drafted, begin)
        if ours is not None and theirs is not None:
            changed = text[: ours.start()] + theirs[0] + text[ours.end() :]
            count += read_claims(changed) != claims
    return count


def _word_from(text: str, begin: int) -> re.Match[str] | None:
    """The word that the text behind `begin` starts or continues, None before punctuation."""
    for match in _WORD.finditer(text):
        if match.end() > begin:
            return None if text[begin : match.start()].strip() else match
    return None
