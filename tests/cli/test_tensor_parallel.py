"""``--tensor-parallel`` beside other options."""

from __future__ import annotations

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tests.cli.fakes import fake_record
from vidcap.cli.app import app
from vidcap.cli.profile import figures


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["bench"], "--tensor-parallel is vidcap's own, arm 'transformers' runs without it"),
        (["describe", "--ray", "local", "a.mp4"], "--ray gives each worker one device"),
        (["plan", "--quantize", "int8", "--pair", "demo", "a.mp4"], "contradict each other"),
    ],
)
def test_what_does_not_go_with_it_is_told(words: list[str], error: str) -> None:
    result = CliRunner().invoke(app, [*words, "--tensor-parallel", "2"])
    assert result.exit_code == 2
    assert error in result.stderr


def test_the_profile_says_how_many_processes_there_were() -> None:
    record = fake_record("a")
    assert record.model is not None
    two = replace(record, model=replace(record.model, tensor_parallel=2))
    added = set(figures(two)) - set(figures(record))
    assert added == {"tensor parallel: 2 processes share the target's layers"}
