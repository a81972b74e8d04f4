"""In float16, nothing but the rounding is another: finite numbers, the same tokens from drafts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from tests.engine.runs import PLAIN, Run
from tests.models.families import BUILDERS, write_family
from tests.models.family_checks import frames_for
from tests.tiny import fresh_logits
from vidcap.captioner import Captioner
from vidcap.cli.app import app
from vidcap.demo.clips import write_mp4
from vidcap.demo.scenes import sample_scene
from vidcap.engine.logits import LogitsSettings
from vidcap.engine.margins import choice_margins
from vidcap.models.loading import LoadedPair
from vidcap.settings import GenerationSettings, ModelSettings, VideoSettings, method_settings

QUESTION = "What moves?"

#: A margin that rounding can turn over, as a share of the largest one of an answer.
NEAR_TIE = 0.01


def load(folder: Path, family: str) -> LoadedPair:
    """A target and a copy with noise, by the way that the command line takes."""
    target = write_family(folder / "target", family)
    near = write_family(folder / "near", family, noise_seed=5)
    model = ModelSettings(pair=f"{target}+{near}", device="cpu", dtype="float16", threads=1)
    method = method_settings("sd-tree")
    return Captioner(model, VideoSettings(), GenerationSettings(), method).load()


@pytest.mark.parametrize("family", BUILDERS)
def test_drafts_change_no_token_but_at_near_ties(tmp_path: Path, family: str) -> None:
    pair = load(tmp_path, family)
    assert pair.dtype == "float16"
    target = pair.target
    run = Run(target, pair.draft, target.prepare(frames_for(target, 5), 2.0), max_tokens=20)
    prefix = target.encode(run.inputs, "reference")
    suffix = target.suffix_ids(QUESTION)
    logits = fresh_logits(target.language, prefix, suffix[0].tolist())
    for numbers in (prefix.embeds, logits):
        assert numbers.dtype == torch.float16
        assert numbers.isfinite().all()
    plain, _ = run.ask(QUESTION, PLAIN)
    rules = target.rules
    settings = LogitsSettings(rules.vocab_size, rules.placeholder_ids)
    margins = choice_margins(run.prefill().target, suffix, settings, plain)
    accepted = 0
    for name in ("sd", "sd-tree", "specvlm", "self"):
        tokens, stats = run.ask(QUESTION, method_settings(name))
        accepted += stats.accepted
        pairs = zip(tokens, plain, strict=True)
        first = next((index for index, (a, b) in enumerate(pairs) if a != b), None)
        assert first is None or margins[first] <= NEAR_TIE * max(margins), name
    assert accepted > 0


def test_the_command_line_runs_it_and_says_so(
    tiny_target: Path, tiny_perturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A run sets these where they are not set; here they must not outlive the test.
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    write_mp4(sample_scene(3), tmp_path / "clip.mp4")
    words = ["describe", str(tmp_path / "clip.mp4"), "--pair", f"{tiny_target}+{tiny_perturbed}"]
    words += ["--max-frames", "2", "--max-tokens", "8", "--threads", "1", "--device", "cpu"]
    words += ["--dtype", "float16", "--format", "json", "--profile"]
    texts = set()
    for method in ("plain", "sd-tree"):
        result = CliRunner().invoke(app, [*words, "--method", method])
        assert result.exit_code == 0, result.output
        record = json.loads(result.stdout)
        assert record["model"]["dtype"] == "float16"
        assert f"method: {method}   device: cpu   dtype: float16\n" in result.stderr
        texts.add(record["text"])
    assert len(texts) == 1
    assert texts != {""}
