from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.runs import make_run
from vidcap.bench.results import ArmRun, RunStore
from vidcap.errors import UsageError

FULL = make_run(
    key="full",
    text="π\u2028",
    facts={"colour": (1, 0, 2)},
    margins=(0.5, 1.5),
    peak_memory_bytes=7,
    answer_right=False,
    question_kind="count",
)


def stored(path: Path) -> list[ArmRun | None]:
    with RunStore(path) as store:
        return [store.get(key) for key in ("k", "full")]


def test_runs_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with RunStore(path) as store:
        store.add(make_run())
        assert len(path.read_bytes().splitlines()) == 1
        store.add(FULL)
    assert stored(path) == [make_run(), FULL]


def test_a_store_without_a_file_keeps_runs_for_the_process() -> None:
    store = RunStore()
    store.add(FULL)
    assert store.get("full") is FULL
    assert store.get("other") is None


@pytest.mark.parametrize("kept", [1, 5, 9, 200])
def test_a_torn_last_line_is_dropped_and_written_over(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "runs.jsonl"
    with RunStore(path) as store:
        store.add(make_run())
        whole = path.read_bytes()
        store.add(FULL)
    path.write_bytes(path.read_bytes()[: len(whole) + kept])
    with RunStore(path) as store:
        assert store.get("full") is None
        assert path.read_bytes() == whole
        store.add(FULL)
    assert stored(path) == [make_run(), FULL]
    assert all(json.loads(line) for line in path.read_text().splitlines())


@pytest.mark.parametrize("content", ["notes without a line break", "notes\n", "{}\n", "[1]\n"])
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"notes\.txt, line 1: no raw result"):
        RunStore(path)
    assert path.read_text() == content


def test_a_run_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with RunStore(path) as store:
        store.add(FULL)
    values = json.loads(path.read_text())
    del values["margins"]
    path.write_text(json.dumps(values) + "\n")
    with pytest.raises(UsageError, match="this version"):
        RunStore(path)


def test_a_file_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*: No such file or directory"):
        RunStore(tmp_path / "none" / "runs.jsonl")
