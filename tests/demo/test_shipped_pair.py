"""The shipped pair, from rendered MP4 files to text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tiny import transformers_greedy
from vidcap import Captioner
from vidcap.demo.answers import score_answer
from vidcap.demo.clips import write_mp4
from vidcap.demo.questions import questions_of
from vidcap.demo.scenes import sample_scene, truth
from vidcap.demo.score import pooled, score_caption
from vidcap.models.loading import load_model
from vidcap.models.pair import builtin_folder
from vidcap.output.record import Record
from vidcap.settings import (
    DEFAULT_DESCRIBE_PROMPT,
    METHODS,
    GenerationSettings,
    ModelSettings,
    VideoSettings,
    method_settings,
)

STRICT = {name: method for name, method in METHODS.items() if method.verify == "strict"}
SEEDS = tuple(range(100, 112))
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("clips")
    for seed in SEEDS:
        write_mp4(sample_scene(seed), folder / f"{seed}.mp4")
    return {seed: folder / f"{seed}.mp4" for seed in SEEDS}


@pytest.fixture(scope="module")
def eyes() -> Captioner:
    model = ModelSettings(pair="demo", dtype="float32", device="cpu")
    generation = GenerationSettings(max_tokens=160)
    return Captioner(model, VideoSettings(), generation, method_settings("sd-tree"))


@pytest.fixture(scope="module")
def records(eyes: Captioner, clips: dict[int, Path]) -> dict[int, Record]:
    """A caption of every clip."""
    found = {}
    for seed, path in clips.items():
        with eyes.open(path) as session:
            found[seed] = session.answer(DEFAULT_DESCRIBE_PROMPT)
    return found


def test_captions_of_unseen_clips_hold_the_facts(records: dict[int, Record]) -> None:
    scores = [
        score_caption(truth(sample_scene(seed)), record.text) for seed, record in records.items()
    ]
    assert pooled(scores).accuracy > 0.8
    assert {record.finish_reason for record in records.values()} == {"stop"}
    rounds = sum(record.speculation.num_spec_steps for record in records.values())
    accepted = sum(record.speculation.num_accepted_draft_tokens for record in records.values())
    assert accepted / rounds > 2.5
    assert {record.model.shared_tower for record in records.values()} == {True}


def test_the_text_of_another_clip_does_not_fit(records: dict[int, Record]) -> None:
    """The target looks: its captions are not one text that suits every clip a little."""
    accuracy = []
    for shift in (0, 1):
        others = [*SEEDS[shift:], *SEEDS[:shift]]
        scores = [
            score_caption(truth(sample_scene(seed)), records[other].text)
            for seed, other in zip(SEEDS, others, strict=True)
        ]
        accuracy.append(pooled(scores).accuracy)
    assert accuracy[1] < accuracy[0] - 0.3


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_every_method_gives_the_text_of_transformers(
    eyes: Captioner, clips: dict[int, Path], seed: int
) -> None:
    adapter = load_model(builtin_folder("target"), torch.device("cpu"), torch.float32)
    frames = eyes.decode(clips[seed])
    inputs = adapter.prepare(frames.rgb, 2.0)
    expected = transformers_greedy(
        adapter,
        inputs,
        adapter.encode(inputs, "reference"),
        adapter.suffix_ids(DEFAULT_DESCRIBE_PROMPT),
        max_tokens=160,
        stop_ids=adapter.rules.stop_ids,
    )
    text = adapter.tokenizer.decode(expected, skip_special_tokens=True)
    for method in STRICT.values():
        with eyes.variant(method).open_frames("clip", frames) as session:
            record = session.answer(DEFAULT_DESCRIBE_PROMPT)
        assert record.text == text, method.method
        assert record.tokens.generated == len(expected)


def test_most_questions_get_the_right_answer(eyes: Captioner, clips: dict[int, Path]) -> None:
    right = []
    for seed in SEEDS[:4]:
        asked = questions_of(truth(sample_scene(seed)), np.random.default_rng(seed))
        with eyes.open(clips[seed]) as session:
            for one in asked:
                record = session.answer(one.text, kind="ask", question=one.text)
                assert record.finish_reason == "stop"
                right.append(score_answer(one, record.text or ""))
    assert len(right) > 20
    assert sum(right) / len(right) > 0.6


def test_the_files_are_those_of_the_hub_and_small() -> None:
    total = 0
    for name in ("target", "draft"):
        folder = builtin_folder(name)
        files = {path.name for path in folder.iterdir()}
        assert {"config.json", "generation_config.json", "tokenizer.json"} <= files
        assert not any(path.suffix in {".bin", ".pt", ".py"} for path in folder.iterdir())
        for path in folder.glob("*.safetensors"):
            assert path.stat().st_size <= 15.1 * MEGABYTE
            total += path.stat().st_size
        config = json.loads((folder / "config.json").read_text("utf-8"))
        assert config["model_type"] == "qwen2_5_vl"
        assert config["text_config"]["dtype"] == "bfloat16"
    assert total <= 36 * MEGABYTE
