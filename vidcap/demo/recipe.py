"""The stages of the recipe: what each learns from, how long, and how fast."""

from __future__ import annotations

from dataclasses import replace

from vidcap.demo.batches import Worlds, visual_tokens
from vidcap.demo.fit import Stage
from vidcap.demo.world import LONG_WORLD, RICH_WORLD, World


def at_most(world: World, tokens: int) -> World:
    """The part of a world whose clips have at most so many visual tokens."""
    kept = tuple(one for one in world.combinations() if visual_tokens(*one[:3]) <= tokens)
    return replace(world, lengths=kept)


#: Clips of up to 130 visual tokens: most steps go here, because they are cheap.
SMALL_WORLD = at_most(RICH_WORLD, 130)

_EARLY: Worlds = ((SMALL_WORLD, 0.75), (RICH_WORLD, 0.25))
_LATE: Worlds = ((SMALL_WORLD, 0.45), (RICH_WORLD, 0.25), (LONG_WORLD, 0.3))

_PRACTICE: Worlds = ((SMALL_WORLD, 0.55), (RICH_WORLD, 0.25), (LONG_WORLD, 0.2))

#: Scenes in which something happens, so that there is an order to ask for.
_EVENTFUL = replace(SMALL_WORLD, event_counts=(0.0, 0.2, 0.5, 0.3))
_EVENTS: Worlds = ((_EVENTFUL, 0.3), (SMALL_WORLD, 0.2), (RICH_WORLD, 0.2), (LONG_WORLD, 0.3))

#: In the order in which they run; ``long``, ``answers`` and ``events`` go on with the target,
#: ``match`` with the draft.
STAGES: dict[str, Stage] = {
    "vision": Stage(
        "vision", steps=1000, clips=24, peak_lr=2e-3, check_every=100, worlds=_EARLY, rows=6000
    ),
    "target": Stage("target", steps=12000, clips=12, worlds=_EARLY, rows=4800),
    "long": Stage(
        "long", steps=2000, clips=14, peak_lr=5e-4, check_every=200, worlds=_LATE, rows=6000
    ),
    "answers": Stage(
        "answers",
        steps=2000,
        clips=14,
        peak_lr=5e-4,
        check_every=200,
        worlds=_PRACTICE,
        rows=6000,
        practice=24,
    ),
    "events": Stage(
        "events",
        steps=2000,
        clips=14,
        peak_lr=5e-4,
        check_every=300,
        worlds=_EVENTS,
        rows=6000,
        practice=24,
        practice_share=0.35,
        keep_tower=True,
    ),
    "draft": Stage(
        "draft", steps=8000, clips=14, peak_lr=2e-3, check_every=500, worlds=_LATE, rows=6000
    ),
    "match": Stage("match", steps=4000, clips=12, peak_lr=1e-3, worlds=_LATE, rows=6000),
}

#: How a time budget for all stages is shared.
TIME_SHARES = {
    "vision": 0.1,
    "target": 0.4,
    "long": 0.2,
    "answers": 0.06,
    "events": 0.06,
    "draft": 0.08,
    "match": 0.1,
}

#: How much more a word of an answer weighs than one of a caption: answers are short, and to find
#: the one object that a question names is harder than to name them all in turn.
ANSWER_WEIGHT = 3.0
#: Weight of the labels of visual tokens, and of what the text model should know at them.
LABEL_WEIGHT, STATE_WEIGHT = 0.15, 0.2
#: Share of the divergence from the target in the loss of ``match``; its choices have the rest.
FAR_WEIGHT = 0.3
#: Layers of target and draft behind which the text model should know it.
STATE_LAYERS = (4, 0)
