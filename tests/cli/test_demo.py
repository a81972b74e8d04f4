from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import typer

from tests.cli.fakes import FakeCaptioner
from vidcap.cli.app import app
from vidcap.demo.clips import LAST_SEED
from vidcap.demo.language import caption
from vidcap.demo.scenes import sample_scene
from vidcap.settings import ModelSettings, method_settings


@pytest.fixture
def true_caption():
    scene = sample_scene(5)
    return caption(scene, np.random.default_rng(5))


def test_the_demo_shows_clip_caption_truth_score_and_speed(cli, true_caption):
    cli.fake(words=[true_caption])
    result = cli("demo", "--seed", "5")
    assert result.exit_code == 0, result.stderr
    out = result.stdout
    assert out.startswith("Clip 5: ")
    assert f"Caption (auto)\n{true_caption}\n\nTruth\n{true_caption}\n" in out
    assert " 0 wrong, 0 missing (100 %)" in out
    assert "tokens per target call" in out
    assert out.endswith("\nExactly the same text: yes\n")
    assert result.stderr == ""


def test_it_runs_the_demo_pair_on_a_real_mp4_by_both_methods(cli, true_caption):
    sizes = []

    class Looks(FakeCaptioner):
        def windows(self, path):
            with open(path, "rb") as file:
                sizes.append(b"ftyp" in file.read(16))
            return super().windows(path)

    cli.fake(Looks, words=[true_caption])
    cli("demo", "--seed", "5", "--method", "sd", "--draft-tokens", "3", "--threads", "1")
    assert sizes == [True, True, True]
    (made,) = cli.made
    assert made.settings[0] == ModelSettings(pair="demo", threads=1)
    assert made.settings[3] == method_settings("sd", draft_tokens=3)
    assert ("variant", "plain") in cli.calls


def test_plain_decoding_is_compared_with_nothing(cli, true_caption):
    cli.fake(words=[true_caption])
    out = cli("demo", "--seed", "5", "--method", "plain").stdout
    assert "tokens per target call" in out
    assert "same text" not in out


class Wavering(FakeCaptioner):
    """Says something else each time, in a number format."""

    dtype = "float32"
    said = 0

    def windows(self, path):
        Wavering.said += 1
        self.words = [f"Text {Wavering.said}."]
        return super().windows(path)

    def finish(self, record):
        return replace(record, model=replace(record.model, dtype=self.dtype))


class WaveringHalf(Wavering):
    dtype = "bfloat16"


@pytest.mark.parametrize(
    ("captioner", "code", "words"),
    [
        (Wavering, 1, "Exactly the same text: NO\n"),
        (WaveringHalf, 0, "same text: no; in bfloat16 near ties can fall either way\n"),
    ],
)
def test_texts_that_differ_are_told_and_are_a_failure_in_float32(cli, captioner, code, words):
    cli.fake(captioner)
    result = cli("demo")
    assert result.exit_code == code
    assert result.stdout.endswith(words)


def test_clips_and_their_truth_are_written_instead(cli, tmp_path):
    folder = tmp_path / "clips"
    result = cli("demo", "--clips", folder, "--count", "2", "--seed", "9")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"vidcap: notice: wrote 2 clips and truth.jsonl to {folder}\n"
    lines = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    assert [line["seed"] for line in lines] == [9, 10]
    assert all((folder / line["file"]).stat().st_size > 500 for line in lines)
    assert cli.made == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--count", "3"], 2, "--count says how many clips --clips writes"),
        (["--seed", "-1"], 2, "invalid value for '--seed'"),
        (["--seed", str(2**31)], 2, "invalid value for '--seed'"),
        (["--clips", "/dev/null/x"], 1, "cannot write /dev/null/x: Not a directory"),
        (["--clips", "x", "--seed", str(2**31 - 2), "--count", "3"], 2, "--seed plus --count"),
    ],
)
def test_what_cannot_be_done_is_one_line(cli, tmp_path, monkeypatch, words, code, message):
    monkeypatch.chdir(tmp_path)
    result = cli("demo", *words)
    assert result.exit_code == code
    assert result.stderr.startswith(f"vidcap: error: {message}")
    assert list(tmp_path.iterdir()) == []


def test_every_seed_that_is_open_to_users_is_offered():
    command = typer.main.get_command(app).commands["demo"]
    (seed,) = [item for item in command.params if item.name == "seed"]
    assert (seed.type_descriptor.parameter_info.min, seed.type_descriptor.parameter_info.max) == (
        0,
        LAST_SEED,
    )
