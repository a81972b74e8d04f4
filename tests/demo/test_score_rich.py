from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from vidcap.demo.language import caption_of
from vidcap.demo.scenes import World, sample_scene, truth
from vidcap.demo.score import BRIEF_KINDS, FactScore, score_caption
from vidcap.demo.world import LONG_WORLD, RICH_WORLD


def captioned(seed: int, world: World) -> tuple[dict[str, Any], str]:
    account = truth(sample_scene(seed, world))
    return account, caption_of(account, np.random.default_rng(seed))


def counts(score: FactScore) -> tuple[int, int, int]:
    return score.right, score.wrong, score.missing


def rich_facts_of(account: dict[str, Any]) -> int:
    """How many facts there are to tell about a rich scene."""
    sized = sum(thing["size"] is not None for thing in account["objects"])
    placed = sum(thing["place"] is not None for thing in account["objects"])
    told = 2 + 3 * len(account["objects"]) + sized + placed + 2 * len(account["events"])
    return told + (account["relation"] is not None)


@pytest.mark.parametrize(("world", "scenes"), [(RICH_WORLD, 250), (LONG_WORLD, 60)])
def test_true_captions_of_rich_scenes_are_all_right(world: World, scenes: int) -> None:
    for seed in range(scenes):
        account, text = captioned(seed, world)
        score = score_caption(account, text)
        assert counts(score) == (rich_facts_of(account), 0, 0), text


@pytest.mark.parametrize("world", [World(), RICH_WORLD])
def test_a_true_brief_caption_may_leave_things_out(world: World) -> None:
    for seed in range(120):
        account = truth(sample_scene(seed, world))
        text = caption_of(account, np.random.default_rng(seed), brief=True)
        score = score_caption(account, text, brief=True)
        assert counts(score) == (1 + 3 * len(account["objects"]), 0, 0), text
        assert {kind for kind, (right, _, _) in score.by_kind.items() if right} == set(BRIEF_KINDS)
        assert score_caption(account, text).missing > 0


def test_a_brief_caption_is_no_excuse_for_false_claims() -> None:
    account = truth(sample_scene(0, RICH_WORLD))
    text = caption_of(account, np.random.default_rng(0), brief=True)
    name = f"{account['objects'][0]['colour']} {account['objects'][0]['shape']}"
    size = {"small": "large", "large": "small"}[account["objects"][0]["size"]]
    score = score_caption(account, text.replace(name, f"{size} {name}"), brief=True)
    assert score.by_kind["size"] == (0, 1, 0)
    assert score.missing == 0
    shorter = score_caption(account, text.replace(name, "thing"), brief=True)
    assert shorter.by_kind["shape"] == (len(account["objects"]) - 1, 0, 1)


RICH_SWAPS = {
    "background": {"checkered": "grainy", "grainy": "plain", "noisy": "checkered"},
    "motion": {"grows": "shrinks", "shrinks": "grows", "bigger": "smaller", "smaller": "bigger"}
    | {"back and forth": "round and round", "round and round": "to and fro"}
    | {"up and": "down and", "diagonally up": "diagonally down"},
    "event": {"disappears": "appears", "appears": "vanishes", "vanishes": "shows up"}
    | {"comes into view": "is gone", "shows up": "goes away"},
}


@pytest.mark.parametrize("kind", RICH_SWAPS)
def test_a_swapped_word_of_a_rich_caption_is_wrong(kind: str) -> None:
    tried = 0
    for seed in range(150):
        account, text = captioned(seed, RICH_WORLD)
        words = "|".join(RICH_SWAPS[kind])
        match = re.search(rf"(?<!object )(?<!figure )(?<!shape )\b({words})\b(?! than)", text)
        if match is None:
            continue
        changed = text[: match.start()] + RICH_SWAPS[kind][match[1]] + text[match.end() :]
        score = score_caption(account, changed)
        assert score.by_kind[kind][1] == 1, changed
        assert score.missing == 0, changed
        tried += 1
    assert tried >= 20
