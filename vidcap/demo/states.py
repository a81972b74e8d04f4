"""What the text model can know at each visual token: where and when it is, and what came before.

Vision towers of this family see two frames at a time and no absolute position; the text model has
both, and all that came before. Labels for that, on its hidden states, teach it in a fraction of the
clips that captions alone would take. They are for training only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vidcap.demo.labels import CELL_CLASSES, LABEL_NAMES, cell_labels
from vidcap.demo.world import ALL_MOTIONS

#: Of the object at a token: there from the start and unchanged, appeared later, has another colour.
HISTORIES = ("unchanged", "appeared", "changed")
#: Classes per key; class 0 of ``path`` and ``history`` is "no object there".
STATE_CLASSES: dict[str, int] = {
    **CELL_CLASSES,
    "path": len(ALL_MOTIONS) + 1,
    "history": len(HISTORIES) + 1,
}


def state_labels(facts: dict[str, Any], colours: NDArray[np.int16]) -> dict[str, NDArray[np.int16]]:
    """Labels int16[t, h, w] per key of :data:`STATE_CLASSES`.

    Args:
        facts: as ``vidcap.demo.scenes.truth`` returns them; colours tell the objects apart.
        colours: the colour label of each token, int16[t, h, w].
    """
    paths = np.zeros(len(LABEL_NAMES["colour"]) + 1, np.int16)
    histories = np.zeros_like(paths)
    for thing in facts["objects"]:
        appeared = thing.get("appears_s") is not None
        later = thing.get("becomes")
        for colour, history in ((thing["colour"], 2 if appeared else 1), (later, 3)):
            if colour is None:
                continue
            at = LABEL_NAMES["colour"].index(colour) + 1
            paths[at] = ALL_MOTIONS.index(thing["motion"]) + 1
            histories[at] = history
    return {**cell_labels(colours.shape), "path": paths[colours], "history": histories[colours]}
