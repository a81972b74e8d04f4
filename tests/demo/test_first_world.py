"""The first demo pair was trained and measured on these scenes: they may never change."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from vidcap.demo.scenes import (
    FIRST_WORLD,
    Scene,
    frame_times,
    render_frames,
    sample_scene,
    token_labels,
    truth,
)

SEEDS = (0, 1, 2, 3, 7, 40, 2**31 - 1, 2**40 + 5)
#: What the account of a scene has gained since.
LATER_KEYS = {"appears_s": None, "disappears_s": None, "becomes": None, "changes_s": None}


def first_scene(seed: int) -> Scene:
    """A scene of the first world."""
    return sample_scene(seed, FIRST_WORLD)


def digest(parts: list[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def first_account(seed: int) -> dict[str, Any]:
    """The account without later keys, whose values are checked."""
    account = truth(first_scene(seed))
    assert account.pop("events") == []
    for thing in account["objects"]:
        assert {key: thing.pop(key) for key in LATER_KEYS} == LATER_KEYS
        assert thing.pop("seen_px") == []
    return account


def test_accounts_stay_the_same() -> None:
    accounts = [json.dumps(first_account(seed), sort_keys=True).encode() for seed in SEEDS]
    assert digest(accounts) == "880a63e7a9636d6c"


def test_frames_stay_the_same() -> None:
    scenes = [first_scene(seed) for seed in SEEDS]
    frames = [render_frames(scene, frame_times(scene)) for scene in scenes]
    assert digest([np.ascontiguousarray(each).tobytes() for each in frames]) == "e24c197c805c863c"


def test_labels_stay_the_same() -> None:
    parts = []
    for scene in map(first_scene, SEEDS):
        for key, classes in sorted(token_labels(scene, frame_times(scene)).items()):
            parts += [key.encode(), classes.tobytes()]
    assert digest(parts) == "8680f132b41ef914"
