"""The script for a GPU, small on the CPU."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from vidcap.bench import gpu
from vidcap.bench.random_models import random_model, random_video
from vidcap.models.facts import pair_tables

CPU = torch.device("cpu")


@pytest.mark.parametrize("pair", gpu.PAIRS, ids=lambda pair: pair[0])
def test_every_family_is_compared_and_measured(pair: tuple[str, str]) -> None:
    plan = replace(gpu.smoke_plan(), contexts=(64,), repeats=1)
    seen: list[str] = []
    rows = list(gpu.measure(plan, [pair], progress=seen.append))
    assert seen == [" + ".join(pair)]
    exact = [row for row in rows if row.what.endswith("equals generate")]
    assert [row.what.split()[0] for row in exact] == list(gpu.METHODS)
    assert all(row.figure.startswith("all 8 tokens") for row in exact)
    steps = [row for row in rows if row.what.startswith("step of")]
    assert [(row.model, row.what) for row in steps] == [
        (name, f"step of {width} behind 64") for name in pair for width in plan.widths
    ]
    assert all("bytes / bandwidth" in row.figure for row in steps)
    assert sum(row.what == "prefill of 64" for row in rows) == 2


def test_nothing_is_begun_when_the_time_is_up() -> None:
    rows = list(gpu.measure(replace(gpu.smoke_plan(), deadline_s=-1.0)))
    assert [row.what for row in rows] == ["read bandwidth", *["not run"] * len(gpu.PAIRS)]


def test_a_model_is_left_in_the_middle_when_the_time_is_up() -> None:
    plan = replace(gpu.smoke_plan(), repeats=1, video_tokens=64)
    target, draft = gpu.PAIRS[0]
    models = [random_model(name, CPU, torch.float32, small=True) for name in (target, draft)]
    rows = [
        *gpu._exactness(*models, target, plan, end=0.0),
        *gpu._speed(models[0], target, plan, 1e9, end=0.0),
    ]
    assert [row.what for row in rows] == ["methods from plain on", "contexts from 64 on"]
    assert {row.figure for row in rows} == {"not run, the time was up"}


def test_a_difference_is_told_with_the_margin_there() -> None:
    assert gpu._agreement([5, 6, 7], [5, 6, 7], [0.5, 0.25, 1.0]) == (
        "all 3 tokens (smallest margin 0.25)"
    )
    assert gpu._agreement([5, 9, 7], [5, 6, 7], [0.5, 0.125, 1.0]) == (
        "first 1 of 3 tokens (margin there 0.125)"
    )


def test_the_table_has_columns() -> None:
    rows = [gpu.Row("a", "longer", "1 ms"), gpu.Row("model", "x", "2 ms")]
    assert gpu.table(rows) == ["a      longer  1 ms", "model  x       2 ms"]


def test_without_a_gpu_only_the_small_run_is_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as caught:
        gpu.main([])
    assert caught.value.code == 1
    assert "--smoke" in capsys.readouterr().err


def test_pairs_are_those_of_presets() -> None:
    pairs = [(entry["target"], entry.get("draft")) for entry in pair_tables()["pairs"].values()]
    assert set(gpu.PAIRS) <= set(pairs)


def test_random_models_repeat() -> None:
    name = gpu.PAIRS[0][1]
    one, other = (random_model(name, CPU, torch.float32, small=True) for _ in range(2))
    pairs = zip(one.model.parameters(), other.model.parameters(), strict=True)
    assert all(torch.equal(first, second) for first, second in pairs)
    videos = [random_video(one, 512), random_video(other, 512)]
    assert torch.equal(videos[0].inputs.ids, videos[1].inputs.ids)
    assert videos[0].inputs.visual_tokens == 512
    assert len(one.encode(videos[0].inputs, "reference").visual_index) == 512


def test_neither_pyav_nor_the_hub_is_needed() -> None:
    code = (
        "import sys, torch; from vidcap.bench import gpu\n"
        "gpu.random_model(gpu.PAIRS[0][1], torch.device('cpu'), torch.float32, small=True)\n"
        "print(sorted({'av', 'vidcap.video', 'vidcap.models.hub'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
