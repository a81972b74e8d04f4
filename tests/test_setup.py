"""Which settings make two runs the same, and what a record says about the models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vidcap.models.loading import LoadedPair
from vidcap.models.pair import PairFolders
from vidcap.settings import (
    GenerationSettings,
    ModelSettings,
    VideoSettings,
    method_settings,
)
from vidcap.setup import Setup

SETUP = Setup(
    PairFolders("twins", "org/large", Path("large"), "org/small", Path("small")),
    ModelSettings(),
    VideoSettings(),
    GenerationSettings(),
    method_settings("sd"),
)
PLAIN, TREE = method_settings("plain"), method_settings("sd-tree")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("model", ModelSettings(threads=3, device="cpu")),
        ("model", ModelSettings(attention="sdpa")),
        ("speculation", PLAIN),
        ("speculation", TREE),
    ],
)
def test_what_changes_the_speed_only_leaves_the_hash_as_it_is(part: str, value: object) -> None:
    assert replace(SETUP, **{part: value}).settings_hash("Hi") == SETUP.settings_hash("Hi")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("folders", replace(SETUP.folders, target_name="org/other")),
        ("model", ModelSettings(dtype="float32")),
        ("model", ModelSettings(quantize="int8")),
        ("video", VideoSettings(max_frames=3)),
        ("generation", GenerationSettings(max_tokens=3)),
        ("speculation", method_settings("sd", verify="loose")),
    ],
)
def test_what_changes_the_text_changes_the_hash(part: str, value: object) -> None:
    assert replace(SETUP, **{part: value}).settings_hash("Hi") != SETUP.settings_hash("Hi")
    assert SETUP.settings_hash("Hi") != SETUP.settings_hash("Ho")


def test_the_method_counts_where_random_numbers_are_drawn() -> None:
    drawn = replace(SETUP, generation=GenerationSettings(temperature=0.5, seed=1))
    assert drawn.settings_hash("Hi") != replace(drawn, speculation=TREE).settings_hash("Hi")


def test_a_record_names_the_models_that_are_used() -> None:
    early = SETUP.model_part(None)
    assert (early.pair, early.target, early.draft) == ("twins", "org/large", "org/small")
    assert (early.device, early.dtype) == (None, None)
    target = object()
    pair = LoadedPair(target, None, "cpu", "float32", "eager")  # type: ignore[arg-type]
    later = replace(SETUP, speculation=PLAIN).model_part(pair)
    assert later.draft is None
    assert (later.device, later.dtype, later.attention) == ("cpu", "float32", "eager")
