"""The shipped pair, from rendered MP4 files to text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.tiny import transformers_greedy
from vidcap import Captioner
from vidcap.demo.clips import write_mp4
from vidcap.demo.scenes import sample_scene, truth
from vidcap.demo.score import pooled, score_caption
from vidcap.models.loading import load_model
from vidcap.models.pair import builtin_folder
from vidcap.settings import (
    DEFAULT_DESCRIBE_PROMPT,
    METHODS,
    GenerationSettings,
    ModelSettings,
    VideoSettings,
    method_settings,
)

STRICT = {name: method for name, method in METHODS.items() if method.verify == "strict"}
SEEDS = range(100, 112)
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("clips")
    for seed in SEEDS:
        write_mp4(sample_scene(seed), folder / f"{seed}.mp4")
    return {seed: folder / f"{seed}.mp4" for seed in SEEDS}


def captioner(dtype: str, method: str = "sd-tree") -> Captioner:
    model = ModelSettings(pair="demo", dtype=dtype, device="cpu", threads=2)
    return Captioner(model, VideoSettings(), GenerationSettings(), method_settings(method))


def test_captions_of_unseen_clips_hold_the_facts(clips: dict[int, Path]) -> None:
    eyes = captioner("float32")
    scores, rounds, accepted = [], 0, 0
    for seed, path in clips.items():
        with eyes.open(path) as session:
            record = session.answer(DEFAULT_DESCRIBE_PROMPT)
        assert record.finish_reason == "stop"
        scores.append(score_caption(truth(sample_scene(seed)), record.text))
        rounds += record.speculation.num_spec_steps
        accepted += record.speculation.num_accepted_draft_tokens
    assert pooled(scores).accuracy > 0.8
    assert accepted / rounds > 1.5


def test_every_method_gives_the_text_of_transformers(clips: dict[int, Path]) -> None:
    adapter = load_model(builtin_folder("target"), torch.device("cpu"), torch.float32)
    base = captioner("float32")
    for seed in list(SEEDS)[:3]:
        frames = base.decode(clips[seed])
        inputs = adapter.prepare(frames.rgb, 2.0)
        expected = transformers_greedy(
            adapter,
            inputs,
            adapter.encode(inputs, "reference"),
            adapter.suffix_ids(DEFAULT_DESCRIBE_PROMPT),
            max_tokens=256,
            stop_ids=adapter.rules.stop_ids,
        )
        text = adapter.tokenizer.decode(expected, skip_special_tokens=True)
        for method in STRICT.values():
            with base.variant(method).open_frames("clip", frames) as session:
                record = session.answer(DEFAULT_DESCRIBE_PROMPT)
            assert record.text == text, method.method
            assert record.tokens.generated == len(expected)


def test_a_blank_video_is_not_described_from_memory(clips: dict[int, Path]) -> None:
    """The target has to look: what it says of another clip does not fit this one."""
    eyes = captioner("float32")
    texts = {}
    for seed, path in clips.items():
        with eyes.open(path) as session:
            texts[seed] = session.answer(DEFAULT_DESCRIBE_PROMPT).text
    shifted = [
        score_caption(truth(sample_scene(seed)), texts[other])
        for seed, other in zip(SEEDS, [*list(SEEDS)[1:], SEEDS[0]], strict=True)
    ]
    own = [score_caption(truth(sample_scene(seed)), texts[seed]) for seed in SEEDS]
    assert pooled(shifted).accuracy < pooled(own).accuracy - 0.3


def test_questions_get_answers(clips: dict[int, Path]) -> None:
    with captioner("auto").open(clips[100]) as session:
        record = session.answer("How many objects are there?", kind="ask")
    assert record.finish_reason == "stop"
    assert record.text.strip()


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
