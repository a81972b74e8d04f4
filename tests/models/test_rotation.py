"""Kept cos and sin against the released rotary embeddings."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.models.families import BUILDERS, write_family
from vidcap.models.loading import load_model
from vidcap.models.rotation import Rotation


@pytest.fixture(scope="module", params=["qwen2_5_vl", "qwen3_vl", "llava_onevision"])
def rotary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    assert request.param in BUILDERS
    folder = write_family(tmp_path_factory.mktemp("rotation"), request.param)
    adapter = load_model(folder, torch.device("cpu"), torch.float32)
    return adapter.model.model.language_model.rotary_emb


def positions(rotary: Any, ids: list[list[int]]) -> torch.Tensor:
    """Ids as the model's text model takes them."""
    plain = torch.tensor(ids)
    return plain.expand(3, *plain.shape) if hasattr(rotary, "mrope_section") else plain


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("ids", "span"),
    [
        ([[5, 6, 6, 7]], range(64)),
        ([[511, 512, 600], [700, 511, 1023]], range(511, 1024)),
        ([[40_000]], range(39_999, 40_100)),
    ],
)
@torch.inference_mode()
def test_kept_rows_are_the_computed_ones(
    rotary: Any, dtype: torch.dtype, ids: list[list[int]], span: range
) -> None:
    rotation, rows = Rotation(rotary), torch.zeros(len(ids), len(ids[0]), 8, dtype=dtype)
    at = positions(rotary, ids)
    for _ in range(2):
        kept = rotation(rows, at, span)
        for ours, computed in zip(kept, rotation(rows, at, None), strict=True):
            assert ours.dtype == dtype
            assert ours.shape == (*rows.shape[:2], 1, 2, computed.shape[-1])
            assert torch.equal(ours, computed)


@torch.inference_mode()
def test_tables_are_made_once_and_few_are_kept(
    rotary: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    forward = type(rotary).forward

    def counted(self: Any, x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        calls.append(position_ids.shape[-1])
        return forward(self, x, position_ids)

    monkeypatch.setattr(type(rotary), "forward", counted)
    rotation, row = Rotation(rotary), torch.zeros(1, 1, 8)
    for start in (3, 7, 3, 600):
        rotation(row, positions(rotary, [[start]]), range(start, start + 64))
    assert calls == [512, 512]
    for start in range(0, 512 * 9, 512):
        rotation(row, positions(rotary, [[start]]), range(start, start + 64))
    assert len(rotation._tables) == 4


@torch.inference_mode()
def test_frequencies_that_follow_the_length_are_never_kept(
    rotary: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotary, "rope_type", "dynamic")
    rotation = Rotation(rotary)
    monkeypatch.setattr(rotary, "rope_type", "default")
    rotation(torch.zeros(1, 1, 8), positions(rotary, [[3]]), range(64))
    assert not rotation._tables
