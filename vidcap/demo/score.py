"""How many facts of a scene a text gets right, wrong, or leaves out.

Facts are the number of objects, the background, the colour, shape, size and motion of every object,
the place of one that stays there, the closing relation, and what happens when. Objects in the text
are matched with objects of the scene so that most facts come out right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from vidcap.demo.answers import score_answer
from vidcap.demo.events import compare_events
from vidcap.demo.reading import OBJECT_KINDS, ObjectClaim, RelationClaim, read_claims
from vidcap.demo.relations import holds

__all__ = [
    "BRIEF_KINDS",
    "FACT_KINDS",
    "FactScore",
    "pooled",
    "score_answer",
    "score_caption",
]

#: Kinds of facts, in the order in which they are reported.
FACT_KINDS: tuple[str, ...] = ("count", "background", *OBJECT_KINDS, "relation", "event", "when")

#: Kinds of facts that a brief caption has to tell.
BRIEF_KINDS: tuple[str, ...] = ("background", "colour", "shape", "motion")

#: Objects of a text beyond this number are not considered for matching, only counted as wrong.
_MOST_MATCHED = 6


@dataclass(frozen=True, slots=True)
class FactScore:
    """Facts of one text, or pooled over many.

    Attributes:
        right: true facts that the text states.
        wrong: claims of the text that are not true, things that are not there included.
        missing: true facts of which the text says nothing.
        by_kind: (right, wrong, missing) per kind of ``FACT_KINDS``.
    """

    right: int
    wrong: int
    missing: int
    by_kind: dict[str, tuple[int, int, int]]

    @property
    def accuracy(self) -> float:
        """right / (right + wrong + missing); 0 where there is nothing to tell."""
        total = self.right + self.wrong + self.missing
        return self.right / total if total else 0.0


@dataclass(slots=True)
class _Tally:
    by_kind: dict[str, list[int]] = field(
        default_factory=lambda: {kind: [0, 0, 0] for kind in FACT_KINDS}
    )

    def compare(self, kind: str, true: str | None, said: str | None) -> None:
        """Count one fact; where there is nothing to say, only a claim counts, as wrong."""
        if true is None and said is None:
            return
        column = 2 if said is None else int(said != true)
        self.by_kind[kind][column] += 1

    def add(self, kind: str, counts: Sequence[int]) -> None:
        self.by_kind[kind] = [a + b for a, b in zip(self.by_kind[kind], counts, strict=True)]

    def excuse(self, kinds: Iterable[str]) -> None:
        """Forget what is missing of some kinds."""
        for kind in kinds:
            self.by_kind[kind][2] = 0

    def score(self) -> FactScore:
        right, wrong, missing = (sum(column) for column in zip(*self.by_kind.values(), strict=True))
        by_kind = {kind: (row[0], row[1], row[2]) for kind, row in self.by_kind.items()}
        return FactScore(right, wrong, missing, by_kind)


def score_caption(truth: dict[str, Any], text: str, brief: bool = False) -> FactScore:
    """Compare a text with what is true of a scene.

    Args:
        truth: as ``vidcap.demo.scenes.truth`` returns it.
        text: a caption, complete or not.
        brief: only facts of :data:`BRIEF_KINDS` can be missing; what else a text says still counts,
            as right or wrong.
    """
    claims = read_claims(text)
    tally = _Tally()
    tally.compare("count", str(len(truth["objects"])), claims.count)
    tally.compare("background", _background_name(truth["background"]), claims.background)
    for thing, claim in _matched(truth["objects"], claims.objects):
        for kind in OBJECT_KINDS:
            true = thing[kind] if thing is not None else None
            tally.compare(kind, true, getattr(claim, kind) if claim is not None else None)
    _compare_relations(tally, truth, claims.relations)
    events, seconds = compare_events(truth, claims.events)
    tally.add("event", events)
    tally.add("when", seconds)
    if brief:
        tally.excuse(kind for kind in FACT_KINDS if kind not in BRIEF_KINDS)
    return tally.score()


def pooled(scores: Iterable[FactScore]) -> FactScore:
    """The sum of several scores."""
    tally = _Tally()
    for score in scores:
        for kind, counts in score.by_kind.items():
            tally.add(kind, counts)
    return tally.score()


def _background_name(background: dict[str, Any]) -> str:
    if background["kind"] == "checker":
        return " ".join(["checker", *sorted(background["colours"])])
    if background["kind"] == "noise":
        return " ".join(["noise", *background["colours"]])
    return " ".join([*background["colours"], *([background["axis"]] if background["axis"] else [])])


def _matched(
    objects: Sequence[dict[str, Any]], claims: Sequence[ObjectClaim]
) -> list[tuple[dict[str, Any] | None, ObjectClaim | None]]:
    """Pairs of object and claim with most facts right; what is left over is paired with None."""
    considered = list(claims[:_MOST_MATCHED])
    slots: list[int | None] = [*range(len(considered))]
    slots += [None] * max(len(objects) - len(considered), 0)

    def agreement(choice: tuple[int | None, ...]) -> int:
        pairs = zip(objects, choice, strict=True)
        return sum(_agreement(thing, considered[k]) for thing, k in pairs if k is not None)

    best = max(permutations(slots, len(objects)), key=agreement)
    pairs: list[tuple[dict[str, Any] | None, ObjectClaim | None]] = [
        (thing, None if k is None else considered[k])
        for thing, k in zip(objects, best, strict=True)
    ]
    pairs += [(None, claim) for k, claim in enumerate(claims) if k not in best]
    return pairs


def _agreement(thing: dict[str, Any], claim: ObjectClaim) -> int:
    said = {kind: getattr(claim, kind) for kind in OBJECT_KINDS}
    return sum(word is not None and word == thing[kind] for kind, word in said.items())


def _compare_relations(
    tally: _Tally, truth: dict[str, Any], claims: Sequence[RelationClaim]
) -> None:
    """Any true relation is as good as the one that the scene's own caption closes with."""
    verdicts = [_is_true(truth["objects"], claim) for claim in claims]
    expected = truth["relation"] is not None
    right = int(expected and any(verdicts))
    tally.add("relation", (right, verdicts.count(False), int(expected and not verdicts)))


def _is_true(objects: Sequence[dict[str, Any]], claim: RelationClaim) -> bool:
    named = [(thing["colour"], thing["shape"]) for thing in objects]
    if claim.first not in named or claim.second not in named or claim.first == claim.second:
        return False
    first, second = (objects[named.index(name)] for name in (claim.first, claim.second) if name)
    return holds(claim.kind, first, second)
