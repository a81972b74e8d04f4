"""A checkpoint of every family through the use case itself: a video file in, a record out."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.models.families import BUILDERS, DRAFT, write_family
from vidcap.captioner import Captioner
from vidcap.demo.clips import write_mp4
from vidcap.demo.scenes import sample_scene
from vidcap.models.facts import read_facts
from vidcap.models.loading import load_model
from vidcap.settings import GenerationSettings, ModelSettings, VideoSettings, method_settings


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    write_mp4(sample_scene(3), path)
    return path


@pytest.fixture(scope="module", params=BUILDERS)
def folders(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Path]:
    root, family = tmp_path_factory.mktemp(request.param), request.param
    target = write_family(root / "target", family, shard_size="200KB")
    return family, target, write_family(root / "draft", family, DRAFT, seed=2)


def test_a_video_is_described_alike_by_every_method(
    folders: tuple[str, Path, Path], clip: Path
) -> None:
    family, target, draft = folders
    model = ModelSettings(pair=f"{target}+{draft}", device="cpu", dtype="float32", threads=1)
    captioner = Captioner(
        model,
        VideoSettings(fps=1.0, max_frames=5),
        GenerationSettings(max_tokens=10),
        method_settings("specvlm"),
    )
    texts = []
    for method in (captioner.speculation, method_settings("plain")):
        with captioner.variant(method).open(clip) as session:
            record = session.answer("What moves?")
        texts.append(record.text)
        visual = record.tokens.visual
        height, width = captioner.geometry.frame_size(record.video.frames_used, 240, 320)
        if family == "llava_onevision":
            assert (height, width, visual) == (70, 70, record.video.frames_used * 9)
        assert visual > 0
        assert record.tokens.prompt > visual
    assert texts[0] == texts[1] != ""


def test_facts_of_a_folder_are_those_of_the_model(folders: tuple[str, Path, Path]) -> None:
    family, target, draft = folders
    for folder, size in ((target, 3), (draft, 1)):
        facts = read_facts(folder)
        spec = load_model(folder, torch.device("cpu"), torch.float32).language.kv_spec
        assert (facts.family, facts.layers) == (family, size)
        assert (facts.layers, facts.kv_heads, facts.head_dim) == (
            spec.layers,
            spec.kv_heads,
            spec.head_dim,
        )
        assert facts.stop_tokens == ("<|im_end|>", "<|endoftext|>")
        assert facts.context == 32768
