"""The tests that the adapter of every family has to pass, whatever is its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.family_checks import (
    PRUNINGS,
    check_assisted,
    check_beside,
    check_chunks,
    check_kept,
    check_methods,
    check_pruning,
)
from vidcap.settings import PositionPolicy


class FamilyContract:
    """A family's test module has a subclass, and a fixture ``models`` made by ``load_family``."""

    adapter: type

    def test_the_family_has_its_adapter(self, models: dict[str, Any]) -> None:
        assert isinstance(models["target"], self.adapter)

    @pytest.mark.parametrize("kept", [[0, 7, 20, -1], []], ids=["some", "none"])
    def test_kept_tokens_are_as_in_the_whole_prompt(
        self, models: dict[str, Any], kept: list[int]
    ) -> None:
        check_kept(models["target"], kept)

    @pytest.mark.parametrize(
        ("count", "positions"), [(1, "reference"), (5, "transformers"), (12, "reference")]
    )
    def test_strict_methods_equal_generate(
        self, models: dict[str, Any], count: int, positions: PositionPolicy
    ) -> None:
        check_methods(models, count, positions)

    def test_drafts_prefilled_beside_the_target_equal_generate(
        self, models: dict[str, Any]
    ) -> None:
        check_beside(models)

    def test_prefills_in_pieces_equal_generate(self, models: dict[str, Any]) -> None:
        check_chunks(models)

    def test_transformers_drafts_as_well(self, models: dict[str, Any]) -> None:
        check_assisted(models)

    @pytest.mark.parametrize(
        "pruning", PRUNINGS, ids=lambda parts: "-".join(map(str, parts.values()))
    )
    def test_pruned_drafts_equal_generate(
        self, models: dict[str, Any], pruning: dict[str, Any]
    ) -> None:
        check_pruning(models, pruning)
