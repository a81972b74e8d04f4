"""``vidcap bench`` as it is typed, on a tiny pair."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, Protocol

import pytest
from typer.testing import CliRunner, Result

from vidcap.bench.metrics import ArmFigures
from vidcap.cli.app import app
from vidcap.demo.clips import write_dataset
from vidcap.engine.round import Accepted

FIGURES = {
    *("name", "settings", "clips", "exact_match", "facts_accuracy", "facts_relative"),
    *("mean_accepted_drafts", "mean_acceptance_length", "draft_acceptance_rate"),
    *("visual_tokens", "draft_visual_tokens", "tokens_per_s", "ttft_s"),
    *("decode_speedup_vs_plain", "decode_speedup_vs_transformers"),
    *("end_to_end_speedup_vs_plain", "prefill_share", "other_share", "peak_memory_bytes"),
    *("question_accuracy", "facts_by_kind", "rejections_on_facts", "step_ms", "note"),
}


class Run(Protocol):
    def __call__(self, *words: str | Path) -> Result: ...


@pytest.fixture
def run(tiny_target: Path, tiny_perturbed: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    # A run sets these where they are not set; here they must not outlive the test.
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    pair = f"{tiny_target}+{tiny_perturbed}"
    fixed = ["bench", "--pair", pair, "--device", "cpu", "--dtype", "float32", "--threads", "1"]
    short = ["--count", "1", "--max-tokens", "12"]

    def invoke(*words: str | Path) -> Result:
        return CliRunner().invoke(app, [*fixed, *short, *map(str, words)])

    return invoke


class CarelessGreedy:
    """Takes the first draft whatever the target says."""

    def judge(self, proposal: Any, scores: Any, step: Any) -> Accepted:
        tokens, choice = proposal.tree.tokens[0].tolist(), scores[0].argmax(-1).tolist()
        if len(tokens) == 1:
            return Accepted((0,), (choice[0],))
        return Accepted((0, 1), (tokens[1], choice[1]))


def test_json_has_every_figure_of_every_arm(run: Run) -> None:
    result = run("--format", "json", "--visual-tokens", "64", "--check-exact", "--seed", "3")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert list(report) == ["schema_version", "machine", "settings", "arms"]
    assert [arm["name"] for arm in report["arms"]] == ["plain", "sd-tree", "transformers"]
    for arm in report["arms"]:
        assert arm.keys() == FIGURES | {"first_differences"}
        assert arm["step_ms"].keys() == {"target", "draft", "verify"}
        assert (arm["clips"], arm["exact_match"], arm["first_differences"]) == (1, 1.0, [])
        assert arm["settings"]["visual_tokens"] == 64
        assert arm["visual_tokens"] == 64
    plain, tree, transformers = report["arms"]
    assert plain["decode_speedup_vs_plain"] == plain["end_to_end_speedup_vs_plain"] == 1
    assert transformers["decode_speedup_vs_transformers"] == 1
    assert tree["mean_acceptance_length"] > 1
    assert tree["settings"]["tree"] == "static"
    assert report["machine"]["threads"] == 1
    assert (report["machine"]["device"], report["machine"]["dtype"]) == ("cpu", "float32")
    assert {"cpu", "cores", "torch", "transformers"} <= report["machine"].keys()
    assert report["settings"]["seed"] == 3
    assert report["settings"]["generation"]["max_tokens"] == 12


def test_the_figures_are_those_of_the_dataclass() -> None:
    assert FIGURES | {"first_differences"} == set(ArmFigures.__dataclass_fields__)


def test_the_table_has_a_line_per_arm_and_length_and_nothing_else_is_on_stdout(run: Run) -> None:
    result = run(
        "--visual-tokens", "40,100", "--arm", "plain", "--arm", "sd", "--grid", "draft-tokens=1,2"
    )
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["arm", "visual", "seen"]
    assert [line.split()[0] for line in lines[1:]] == 2 * [
        "plain",
        "sd[draft-tokens=1]",
        "sd[draft-tokens=2]",
    ]
    assert [line.split()[1] for line in lines[1::3]] == ["64", "100"]
    assert result.stderr == (
        "vidcap: notice: no demo clip has about 40 visual tokens; these have 64\n"
    )


def test_questions_add_what_is_right_by_kind(run: Run) -> None:
    result = run("--questions", "--visual-tokens", "64", "--arm", "plain")
    assert result.exit_code == 0, result.stderr
    main, facts, answers = (part.splitlines() for part in result.stdout.split("\n\n"))
    assert main[1].split()[:2] == ["plain", "64"]
    assert facts[0].split()[:3] == ["facts", "visual", "count"]
    assert answers[0].split()[:3] == ["answers", "visual", "colour"]
    assert answers[1].split()[0] == "plain"
    assert all(cell.endswith("%") for cell in answers[1].split()[2:])


@pytest.mark.parametrize("form", ["md", "csv"])
def test_other_forms_hold_the_same_arms(run: Run, form: str) -> None:
    result = run("--arm", "plain", "--visual-tokens", "64", "--format", form)
    assert result.exit_code == 0, result.stderr
    if form == "csv":
        (row,) = csv.DictReader(io.StringIO(result.stdout))
        assert (row["name"], row["clips"], row["exact_match"]) == ("plain", "1", "1.0")
        assert (row["settings.method"], row["step_ms.draft"]) == ("plain", "")
        assert float(row["step_ms.target"]) > 0
    else:
        header, rule, row = result.stdout.splitlines()
        assert len(header) == len(rule) == len(row)
        assert row.startswith("| plain |")
        assert set(rule) == set("|- :")


def test_transformers_drafts_too_and_a_page_shows_it_all(run: Run, tmp_path: Path) -> None:
    arms = ["plain", "transformers-assisted", "transformers-lookup"]
    page = tmp_path / "page.html"
    words = [word for arm in arms for word in ("--arm", arm)]
    result = run("--visual-tokens", "64", *words, "--format", "json", "--html", page)
    assert result.exit_code == 0, result.stderr
    _, assisted, lookup = json.loads(result.stdout)["arms"]
    assert (assisted["exact_match"], lookup["exact_match"]) == (1, 1)
    assert (assisted["draft_visual_tokens"], lookup["draft_visual_tokens"]) == (0, None)
    assert result.stderr == f"vidcap: notice: transformers-assisted: {assisted['note']}\n"
    assert all(arm in page.read_text("utf-8") for arm in arms)


def test_samples_have_the_seed_of_the_clips_and_are_not_compared(run: Run) -> None:
    words = ("--visual-tokens", "64", "--arm", "plain", "--arm", "sd", "--format", "json")
    result = run(*words, "--temperature", "0.9", "--top-p", "0.8", "--seed", "3")
    assert (result.exit_code, result.stderr) == (0, "")
    report = json.loads(result.stdout)
    generation = report["settings"]["generation"]
    assert [generation[name] for name in ("temperature", "top_p", "seed")] == [0.9, 0.8, 3]
    assert [arm["exact_match"] for arm in report["arms"]] == [None, None]


def test_an_arm_that_breaks_its_promise_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vidcap.engine.request.StrictGreedy", CarelessGreedy)
    words = ("--visual-tokens", "64", "--arm", "plain", "--arm", "sd", "--format", "json")
    result = run(*words, "--check-exact")
    assert result.exit_code == 1
    sd = json.loads(result.stdout)["arms"][1]
    assert sd["exact_match"] == 0
    (difference,) = sd["first_differences"]
    assert difference["clip"] == "demo 0"
    assert difference["margin"] > 0
    place = difference["position"]
    assert result.stderr.startswith(
        f"vidcap: error: sd differs from plain on 1 of 1 clips: demo 0 at token {place}, where"
    )
    unchecked = run(*words)
    assert unchecked.exit_code == 0
    assert unchecked.stderr.startswith("vidcap: notice: sd differs from plain")


def test_a_second_run_takes_its_results_from_the_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    words = ("--visual-tokens", "64", "--arm", "plain", "--format", "json", "--out-file", path)
    first, second = run(*words), run(*words)
    assert second.stdout == first.stdout
    assert first.stderr == ""
    assert second.stderr == f"vidcap: notice: 1 results come from {path}\n"
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["clip"] == "demo 0"


def test_a_folder_with_a_broken_file_ends_with_1_and_the_rest_is_measured(
    run: Run, tmp_path: Path
) -> None:
    write_dataset(tmp_path, 1, seed=0)
    (tmp_path / "truth.jsonl").unlink()
    (tmp_path / "a.mp4").write_bytes(b"no video")
    result = run("--dataset", tmp_path, "--count", "5", "--arm", "plain", "--format", "json")
    assert result.exit_code == 1
    (arm,) = json.loads(result.stdout)["arms"]
    assert (arm["clips"], arm["facts_accuracy"]) == (1, None)
    assert result.stderr.startswith("vidcap: error: a.mp4: ")


def test_a_named_data_set_is_called_by_its_name(run: Run, tmp_path: Path) -> None:
    write_dataset(tmp_path, 1, seed=0)
    result = run("--dataset", f"mine={tmp_path}", "--arm", "plain", "--format", "json")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["settings"]["dataset"] == "mine"
    assert report["settings"]["attn"] == "auto"
    assert report["arms"][0]["clips"] == 1


@pytest.mark.parametrize("dataset", ["nowhere", "mine=nowhere"])
def test_a_missing_data_set_is_told_before_the_model_is_looked_for(
    run: Run, dataset: str, tmp_path: Path
) -> None:
    result = run("--dataset", dataset, "--pair", str(tmp_path / "no-model"))
    assert result.exit_code == 2
    assert result.stderr.startswith("vidcap: error: no data set 'nowhere'\n")


def test_nothing_is_printed_where_no_clip_could_be_used(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"no video")
    result = run("--dataset", tmp_path, "--arm", "plain")
    assert (result.exit_code, result.stdout) == (1, "")


def test_truth_and_questions_of_a_data_set_are_scored(run: Run, tmp_path: Path) -> None:
    write_dataset(tmp_path, 1, seed=0)
    (line,) = (tmp_path / "truth.jsonl").read_text().splitlines()
    question = {"file": "clip_00000.mp4", "question": "What?", "answer": "zzz", "kind": "colour"}
    (tmp_path / "truth.jsonl").write_text(f"{line}\n{json.dumps(question)}\n")
    result = run("--dataset", tmp_path, "--count", "2", "--arm", "plain", "--format", "json")
    assert result.exit_code == 0, result.stderr
    (arm,) = json.loads(result.stdout)["arms"]
    assert arm["clips"] == 2
    assert arm["facts_accuracy"] is not None
    assert arm["question_accuracy"] == {"colour": 0.0}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--arm", "magic"], "unknown arm 'magic'"),
        (["--set", "draft-tokens"], "--set takes KEY=VALUE, not 'draft-tokens'"),
        (["--grid", "magic=1,2"], "no method has a setting 'magic'"),
        (["--draft-tokens", "3"], "draft-tokens makes no difference to any arm"),
        (["--draft-tokens", "3", "--set", "draft-tokens=3"], "'draft-tokens' is given twice"),
        (["--arm", "sd", "--check-exact"], "--check-exact compares with plain"),
        (["--check-exact", "--temperature", "1"], "--check-exact needs greedy texts"),
        (["--temperature", "-1"], "--temperature must be between 0 and 100, not -1"),
        (["--html", "."], "--html takes a file, . is a folder"),
        (["--html", "none/page.html"], "--html: there is no folder none"),
        (["--visual-tokens", "many"], "--visual-tokens takes whole numbers above 0"),
        (["--visual-tokens", "0"], "--visual-tokens takes whole numbers above 0"),
        (["--dataset", ".", "--visual-tokens", "9"], "--visual-tokens chooses among demo clips"),
        (["--dataset", "nowhere"], "no data set 'nowhere'"),
        (["--seed", "2147483647", "--count", "2"], "--seed plus --count goes beyond 2147483647"),
        (["--no-draft"], "arm 'sd-tree' needs a draft, --no-draft takes it away"),
        (
            ["--arm", "transformers-assisted", "--no-draft"],
            "arm 'transformers-assisted' needs a draft, --no-draft takes it away",
        ),
        (["--format", "xml"], "invalid value for '--format'"),
        (["--out-file", "none/runs.jsonl"], "cannot write none/runs.jsonl"),
    ],
)
def test_usage_errors_are_one_line_and_end_with_2(run: Run, words: list[str], message: str) -> None:
    result = run(*words)
    assert result.exit_code == 2, result.stderr
    assert result.stdout == ""
    assert result.stderr.lower().startswith(f"vidcap: error: {message}".lower())
    assert len(result.stderr.splitlines()) <= 2


def test_a_part_on_the_command_line_reaches_the_arm(run: Run) -> None:
    result = run(
        *("--visual-tokens", "64", "--arm", "sd", "--arm", "plain", "--draft-tokens", "2"),
        *("--format", "json"),
    )
    sd, plain = json.loads(result.stdout)["arms"]
    assert (sd["name"], sd["settings"]["draft_tokens"]) == ("sd", 2)
    assert plain["settings"]["method"] == "plain"
    assert sd["mean_accepted_drafts"] <= 2
