"""Which checkpoints make a pair, and what is checked before weights are loaded."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.models.families import DRAFT, TARGET, change_json, write_family
from vidcap.errors import ModelError
from vidcap.models import loading
from vidcap.models.checkpoint import read_checkpoint
from vidcap.models.loading import load_model, load_pair_folders
from vidcap.models.match import check_match
from vidcap.models.pair import find_pair
from vidcap.settings import ModelSettings


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("match")
    return {
        family: write_family(root / family, family)
        for family in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava_onevision")
    }


@pytest.fixture
def model(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the Qwen2-VL checkpoint, to be broken."""
    shutil.copytree(folders["qwen2_vl"], tmp_path / "model")
    return tmp_path / "model"


def test_sizes_that_pad_their_vocabularies_differently_are_a_pair(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    write_family(tmp_path, "qwen2_vl", DRAFT)
    target, draft = read_checkpoint(folders["qwen2_vl"]), read_checkpoint(tmp_path)
    assert (target.config.get_text_config().vocab_size, TARGET.rows) == (320, 320)
    assert draft.config.get_text_config().vocab_size == 384
    assert target.rules.vocab_size == draft.rules.vocab_size == 300
    check_match(target, draft)


@pytest.mark.parametrize(
    ("draft", "words"),
    [
        ("llava_onevision", "tokenizers differ (the draft has 2 tokens more)"),
        ("qwen3_vl", "visual tokens differ (Qwen2-VL has 2 frames per step, factor 28"),
    ],
)
def test_families_that_see_or_write_otherwise_are_no_pair(
    folders: dict[str, Path], draft: str, words: str
) -> None:
    with pytest.raises(ModelError, match=re.escape(words)) as caught:
        check_match(read_checkpoint(folders["qwen2_vl"]), read_checkpoint(folders[draft]))
    assert "Qwen2-VL, Qwen2.5-VL, Qwen3-VL, LLaVA-OneVision" in (caught.value.hint or "")


def test_placeholders_must_agree_where_tokenizers_do(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """A Qwen2-VL with the tokenizer of LLaVA-OneVision, which has both kinds of placeholders."""
    folder = tmp_path / "model"
    shutil.copytree(folders["qwen2_vl"], folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folders["llava_onevision"] / name, folder / name)
    llava = read_checkpoint(folders["llava_onevision"])
    with pytest.raises(ModelError, match=r"visual placeholders differ \(ids \["):
        check_match(read_checkpoint(folder), llava)


def test_a_pair_that_does_not_match_costs_no_loading(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "load_weights", lambda *args: pytest.fail("weights were loaded"))
    settings = ModelSettings(
        pair=f"{folders['qwen2_5_vl']}+{folders['llava_onevision']}", device="cpu"
    )
    with pytest.raises(ModelError, match="do not make a pair"):
        load_pair_folders(find_pair(settings, needs_draft=True), settings)


def test_sliding_windows_are_refused_before_loading(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    text = config["text_config"] | {"use_sliding_window": True, "max_window_layers": 1}
    text |= {"sliding_window": 64}
    text.pop("layer_types")
    change_json(model, "config.json", text_config=text)
    with pytest.raises(ModelError, match="sliding-window attention") as caught:
        load_model(model, torch.device("cpu"), torch.float32)
    assert "Qwen3-VL" in (caught.value.hint or "")


def test_unknown_architectures_are_told_what_is_supported(model: Path) -> None:
    change_json(model, "config.json", model_type="internvl")
    with pytest.raises(ModelError, match="unsupported model type 'internvl'") as caught:
        read_checkpoint(model)
    assert (caught.value.hint or "").endswith("llava_onevision, qwen2_5_vl, qwen2_vl, qwen3_vl")


def _few_rows(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    change_json(model, "config.json", text_config=config["text_config"] | {"vocab_size": 200})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_few_rows, "has 200 embeddings, its tokenizer ids up to 299"),
        (
            lambda model: change_json(model, "config.json", video_token_id=9),
            "names 9 as the id of <|video_pad|>, its tokenizer 7",
        ),
        (
            lambda model: change_json(model, "generation_config.json", eos_token_id=[2, 5000]),
            "names 5000 as a stop token",
        ),
        (
            lambda model: (model / "chat_template.jinja").write_text("{{ messages[0].role }}"),
            "has no place for one video",
        ),
        (
            lambda model: (model / "chat_template.jinja").write_text("{{ ''.__class__.mro() }}"),
            "chat template",
        ),
        (lambda model: (model / "tokenizer.json").write_text("{}"), "cannot be loaded"),
    ],
    ids=["rows", "placeholder", "stop", "no video", "unsafe template", "no tokens"],
)
def test_checkpoints_that_contradict_themselves(
    model: Path, change: Callable[[Path], object], words: str
) -> None:
    change(model)
    with pytest.raises(ModelError, match=re.escape(words)) as caught:
        read_checkpoint(model)
    assert "\n" not in caught.value.message
