"""What a text claims about a scene: captions read back into facts.

The reader knows the words of ``vidcap.demo.phrases`` and looks for them sentence by sentence, so it
also copes with a model that leaves a sentence out or contradicts itself. A claim is None where the
text does not make it, and :data:`CONFLICT` where it makes two at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from vidcap.demo.events import EventClaim, is_definite, read_event
from vidcap.demo.phrases import NUMBERS, SIZE_WORDS
from vidcap.demo.world import BACKGROUND_COLOURS, COLOURS, SHAPES

#: A claim that the text makes in two ways that exclude each other; never true.
CONFLICT = "conflict"

OBJECT_KINDS: tuple[str, ...] = ("colour", "shape", "size", "motion", "place")


@dataclass(frozen=True, slots=True)
class ObjectClaim:
    """What a text says of one object; names as in ``vidcap.demo.world``."""

    colour: str | None = None
    shape: str | None = None
    size: str | None = None
    motion: str | None = None
    place: str | None = None


@dataclass(frozen=True, slots=True)
class RelationClaim:
    """A relation between two objects that are referred to by colour and shape."""

    kind: str
    first: tuple[str, str] | None
    second: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Claims:
    """Everything that a text says.

    Attributes:
        count: number of objects.
        background: colours, then the axis of a gradient, e.g. ``navy`` or ``navy teal vertical``;
            behind ``checker`` in alphabetical order, and behind ``noise``.
        events: in the order in which the text tells them.
    """

    count: str | None = None
    background: str | None = None
    objects: tuple[ObjectClaim, ...] = ()
    relations: tuple[RelationClaim, ...] = ()
    events: tuple[EventClaim, ...] = ()


def _any_of(words: tuple[str, ...]) -> str:
    return r"\b(?:" + "|".join(words) + r")\b"


_SHAPE = "|".join(SHAPES)
_COLOUR = "|".join(COLOURS)
_NAMED = re.compile(rf"\b({_COLOUR}) ({_SHAPE})\b")
_COLOUR_WORD = re.compile(rf"\b(?:{_COLOUR})\b")
_SHAPE_WORD = re.compile(rf"\b(?:{_SHAPE})\b")
_BACKGROUND_WORD = re.compile(rf"\b(?:{'|'.join(BACKGROUND_COLOURS)})\b")
_COUNT = re.compile(
    rf"\b({'|'.join(NUMBERS[1:])}|a single|a pair of|a|an) (?:object|shape|figure)s?\b"
)
_END_WORD = re.compile(r"\b(?:top|bottom|left|right)\b")
#: A colour of a background with the end of a gradient that it is at.
_BEHIND = (
    rf"\b(?:{'|'.join(BACKGROUND_COLOURS)})\b(?: (?:at the (?:top|bottom)|on the (?:left|right)))?"
)
_PLACE = re.compile(r"\b(?:(upper|lower) (left|right)|(middle|center))\b")
_SIZES = {name: re.compile(_any_of(words)) for name, words in SIZE_WORDS.items()}
_MOTIONS = {
    "left": re.compile(r"\b(?:leftwards?|to the left)\b"),
    "right": re.compile(r"\b(?:rightwards?|to the right)\b"),
    "up": re.compile(r"\b(?:upwards?|rises?|climbs?|(?:goes|floats|moves?|diagonally) up)\b"),
    "down": re.compile(r"\b(?:downwards?|sinks?|falls?|(?:goes|drifts|moves?|diagonally) down)\b"),
    "still": re.compile(
        r"\b(?:still|does not move|not moving|rests|motionless|stays? in place|stays? put)\b"
    ),
    "circling": re.compile(r"\bround and round\b|\bcircl(?:es|ing)\b|\bin a loop\b"),
    "bouncing": re.compile(r"\bback and forth\b|\bto and fro\b|\bbounc(?:es?|ing)\b"),
    "growing": re.compile(
        r"\b(?:grows?|growing|swells?|expands?|(?:gets?|becomes?) (?:bigger|larger))\b"
    ),
    "shrinking": re.compile(r"\b(?:shrinks?|shrinking|contracts?|(?:gets?|becomes?) smaller)\b"),
}
#: Motions that together make a slanting one.
_SLANTS = {
    frozenset((rise, side)): f"{rise} {side}"
    for rise in ("up", "down")
    for side in ("left", "right")
}
_CHECKER = re.compile(r"\bcheck(?:s|ers?|ered|erboard)\b")
_PATTERN_WORD = re.compile(
    r"\b(?:check(?:s|ers?|ered|erboard)|grainy|noisy|speckled|grain|noise)\b"
)
_NOISE = re.compile(r"\b(?:grainy|noisy|speckled|grain|noise)\b")
#: Pattern, relation, and whether the objects are named in the opposite order.
_RELATIONS = (
    (re.compile(r"\b(?:larger|bigger) than\b|\bmore room than\b"), "larger", False),
    (re.compile(r"\bsmaller than\b|\bless room than\b"), "larger", True),
    (re.compile(r"\babove\b|\bhigher than\b"), "above", False),
    (re.compile(r"\bbelow\b|\blower than\b"), "above", True),
    (re.compile(rf"\bleft of the (?:{_COLOUR})\b"), "left", False),
    (re.compile(rf"\bright of the (?:{_COLOUR})\b"), "left", True),
    (re.compile(r"\bsame (?:directions?|ways?)\b"), "same", False),
    (re.compile(r"\bopposite (?:directions?|ways?)\b"), "opposite", False),
    (re.compile(r"\bneither\b.*\bnor\b|\bboth\b.*\bkeep their places?\b"), "both still", False),
)
_DEFINITE = re.compile(rf"\bthe (?:{_COLOUR})\b")
_SENTENCE_END = re.compile(r"[.!?\n]+")
_CLAUSE_BREAK = re.compile(r",? and (?=an? )")
_LIST_BREAK = re.compile(r",? and (?=an? )|, (?=an? )")


@dataclass(slots=True)
class _Reader:
    """Collects claims while sentences go by."""

    counts: set[str] = field(default_factory=set)
    backgrounds: set[str] = field(default_factory=set)
    objects: list[ObjectClaim] = field(default_factory=list)
    relations: list[RelationClaim] = field(default_factory=list)
    events: list[EventClaim] = field(default_factory=list)

    def read(self, sentence: str) -> None:
        relation = _read_relation(sentence)
        if relation is not None:
            self.relations.append(relation)
            return
        self.counts |= _read_counts(sentence)
        if "background" in sentence:
            behind, rest = _split_background(sentence)
            background = _read_background(behind)
            if background is not None:
                self.backgrounds.add(background)
            for clause in _things(rest):
                self._read_object(clause)
            return
        event = read_event(sentence)
        if event is not None:
            self.events.append(event)
            if is_definite(sentence):
                return
        for clause in _CLAUSE_BREAK.split(sentence):
            for part in _things(clause):
                self._read_object(part)

    def _read_object(self, clause: str) -> None:
        claim = read_object(clause)
        if claim.shape is None and clause.strip().startswith("it ") and self.objects:
            self.objects[-1] = _merge(self.objects[-1], claim)
            return
        if claim.colour is None and claim.shape is None:
            return
        if _DEFINITE.search(clause) and self._refer(claim):
            return
        self.objects.append(claim)

    def _refer(self, claim: ObjectClaim) -> bool:
        """Whether "the red circle" speaks of an object introduced before; "a red circle" does not.

        A bare reference to an unknown object says nothing new about the scene once one is known.
        """
        for k, known in enumerate(self.objects):
            if (known.colour, known.shape) == (claim.colour, claim.shape):
                self.objects[k] = _merge(known, claim)
                return True
        bare = claim.size is None and claim.motion is None and claim.place is None
        return bare and bool(self.objects)


def read_claims(text: str) -> Claims:
    """Everything that a text in the captions' language says about a scene."""
    reader = _Reader()
    for sentence in _SENTENCE_END.split(text.lower()):
        reader.read(" ".join(sentence.split()))
    return Claims(
        _only(reader.counts),
        _only(reader.backgrounds),
        tuple(reader.objects),
        tuple(reader.relations),
        tuple(reader.events),
    )


def read_object(clause: str) -> ObjectClaim:
    """What a clause, in lower case, says of the one object that it speaks about."""
    places = {match.group(0) for match in _PLACE.finditer(clause)}
    rest = _PLACE.sub(" ", clause)
    return ObjectClaim(
        colour=_only(set(_COLOUR_WORD.findall(rest))),
        shape=_only(set(_SHAPE_WORD.findall(rest))),
        size=_only({name for name, words in _SIZES.items() if words.search(rest)}),
        motion=read_motion(rest),
        place=_only({"middle" if place == "center" else place for place in places}),
    )


def motions_in(clause: str) -> frozenset[str]:
    """Every motion that a clause in lower case has words for, a slanting one as its two parts."""
    return frozenset(name for name, words in _MOTIONS.items() if words.search(clause))


def read_motion(clause: str) -> str | None:
    """The motion that a clause in lower case speaks of; up and left make "up left"."""
    motions = motions_in(clause)
    return _SLANTS.get(motions) or _only(set(motions))


def _only(values: set[str]) -> str | None:
    if not values:
        return None
    return next(iter(values)) if len(values) == 1 else CONFLICT


def _merge(known: ObjectClaim, more: ObjectClaim) -> ObjectClaim:
    joined = {}
    for kind in OBJECT_KINDS:
        values = {getattr(known, kind), getattr(more, kind)} - {None}
        joined[kind] = _only(values)
    return replace(known, **joined)


def _read_counts(sentence: str) -> set[str]:
    numbers = {"a single": "1", "a": "1", "an": "1", "a pair of": "2"}
    numbers |= {word: str(value) for value, word in enumerate(NUMBERS)}
    return {numbers[match.group(1)] for match in _COUNT.finditer(sentence)}


def _split_background(sentence: str) -> tuple[str, str]:
    """The words about the background, and those about objects where the sentence names any."""
    if not _NAMED.search(sentence):
        return sentence, ""
    spans = [match.span() for match in re.finditer(rf"background|{_BEHIND}", sentence)]
    start, end = min(spans)[0], max(spans)[1]
    inner = _NAMED.search(sentence, start, end)
    if inner:  # colours of the background on both sides of objects: no caption is like that
        end = inner.start()
    pattern = _PATTERN_WORD.search(sentence)
    behind = sentence[start:end] + (f" {pattern[0]}" if pattern else "")
    return behind, f"{sentence[:start]} , {sentence[end:]}"


def _things(text: str) -> list[str]:
    """The text cut at the commas of a list of objects, so that each part names one."""
    parts: list[str] = []
    for part in _LIST_BREAK.split(text):
        if parts and not (_NAMED.search(parts[-1]) and _NAMED.search(part)):
            parts[-1] += ", " + part
        else:
            parts.append(part)
    return parts


def _read_background(sentence: str) -> str | None:
    colours = _BACKGROUND_WORD.findall(sentence)
    if not colours:
        return None
    if _CHECKER.search(sentence):
        return " ".join(["checker", *sorted(colours)])
    if _NOISE.search(sentence):
        return " ".join(["noise", *colours])
    ends = set(_END_WORD.findall(sentence))
    if not ends and len(colours) == 1:
        return str(colours[0])
    axis = {frozenset({"top", "bottom"}): "vertical", frozenset({"left", "right"}): "horizontal"}
    return " ".join([*colours, axis.get(frozenset(ends), CONFLICT)])


def _read_relation(sentence: str) -> RelationClaim | None:
    for pattern, kind, backwards in _RELATIONS:
        if pattern.search(sentence):
            named = [(colour, shape) for colour, shape in _NAMED.findall(sentence)]
            first, second = (*named, None, None)[:2]
            return RelationClaim(kind, *((second, first) if backwards else (first, second)))
    return None
