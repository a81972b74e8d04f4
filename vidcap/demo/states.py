"""What the text model can know at each visual token: where and when it is, what came before, and
what is behind it all.

Vision towers of this family see two frames at a time and no absolute position; the text model has
both, and all that came before. Labels for that, on its hidden states, teach it in a fraction of the
clips that captions alone would take. They are for training only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vidcap.demo.labels import CELL_CLASSES, LABEL_NAMES, cell_labels
from vidcap.demo.world import ALL_MOTIONS, BACKGROUND_COLOURS

#: Of the object at a token: there from the start and unchanged, appeared later, has another colour.
HISTORIES = ("unchanged", "appeared", "changed")
#: Kinds of backgrounds, gradients by their axis.
GROUNDS = ("plain", "vertical", "horizontal", "checker", "noise")
#: Classes per key; class 0 of ``path`` and ``history`` is "no object there", that of ``since`` "no
#: object, or one of which nothing is new". ``first`` and ``last`` are colours of the background.
STATE_CLASSES: dict[str, int] = {
    **CELL_CLASSES,
    "path": len(ALL_MOTIONS) + 1,
    "history": len(HISTORIES) + 1,
    "since": CELL_CLASSES["second"] + 1,
    "ground": len(GROUNDS),
    "first": len(BACKGROUND_COLOURS),
    "last": len(BACKGROUND_COLOURS),
}


def state_labels(facts: dict[str, Any], colours: NDArray[np.int16]) -> dict[str, NDArray[np.int16]]:
    """Labels int16[t, h, w] per key of :data:`STATE_CLASSES`.

    Args:
        facts: as ``vidcap.demo.scenes.truth`` returns them; colours tell the objects apart.
        colours: the colour label of each token, int16[t, h, w].
    """
    paths = np.zeros(len(LABEL_NAMES["colour"]) + 1, np.int16)
    histories, since = np.zeros_like(paths), np.zeros_like(paths)
    for thing in facts["objects"]:
        appears_s, changes_s = thing.get("appears_s"), thing.get("changes_s")
        first = 1 if appears_s is None else 2
        for colour, history, time_s in (
            (thing["colour"], first, appears_s),
            (thing.get("becomes"), 3, changes_s),
        ):
            if colour is None:
                continue
            at = LABEL_NAMES["colour"].index(colour) + 1
            paths[at] = ALL_MOTIONS.index(thing["motion"]) + 1
            histories[at] = history
            if time_s is not None:
                since[at] = min(round(time_s) + 1, CELL_CLASSES["second"])
    ground = {
        key: np.full(colours.shape, number, np.int16)
        for key, number in _ground(facts["background"]).items()
    }
    known = {"path": paths[colours], "history": histories[colours], "since": since[colours]}
    return {**cell_labels(colours.shape), **known, **ground}


def _ground(background: dict[str, Any]) -> dict[str, int]:
    """Classes of the background; the colours of a checker, which has no first, as the palette's."""
    palette = list(BACKGROUND_COLOURS)
    named = [palette.index(name) for name in background["colours"]]
    if background["kind"] == "checker":
        named.sort()
    kind = background["axis"] or background["kind"]
    return {"ground": GROUNDS.index(kind), "first": named[0], "last": named[-1]}
