"""Real runs of tiny pairs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from vidcap import Captioner
from vidcap.bench.arms import Arm, make_arms
from vidcap.bench.baseline import full_prompt
from vidcap.bench.datasets import Clip, DataSet
from vidcap.bench.metrics import ClipRuns
from vidcap.bench.rendered import render_dataset
from vidcap.bench.results import ArmRun, RunStore
from vidcap.bench.runner import Bench
from vidcap.engine.attention import ATTENTION_NAME
from vidcap.engine.round import Accepted
from vidcap.errors import UsageError
from vidcap.session import VideoSession
from vidcap.settings import GenerationSettings, ModelSettings, VideoSettings, method_settings

MAX_TOKENS = 24
ARMS = make_arms(["plain", "sd", "sd-tree", "transformers"], {}, {})


@pytest.fixture(scope="module")
def captioner(tiny_target: Path, tiny_perturbed: Path) -> Captioner:
    pair = f"{tiny_target}+{tiny_perturbed}"
    return Captioner(
        ModelSettings(pair=pair, device="cpu", dtype="float32", threads=1),
        VideoSettings(),
        GenerationSettings(max_tokens=MAX_TOKENS),
        method_settings("sd"),
    )


@pytest.fixture(scope="module")
def data(captioner: Captioner, tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    folder = tmp_path_factory.mktemp("clips")
    return render_dataset(
        folder, captioner.geometry, captioner.video, count=3, seed=0, visual_tokens=64
    )


class Progress:
    """Runs the bench and keeps what it says."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.errors: list[tuple[str, str]] = []

    def bench(
        self,
        captioner: Captioner,
        arms: list[Arm] | None = None,
        store: RunStore | None = None,
        machine: dict[str, Any] | None = None,
    ) -> Bench:
        return Bench(
            captioner,
            arms or ARMS,
            store or RunStore(),
            machine or {},
            progress=self.words.append,
            on_error=lambda error, clip: self.errors.append((clip.name, str(error))),
        )


@pytest.fixture(scope="module")
def found(captioner: Captioner, data: DataSet) -> tuple[list[ClipRuns], list[str]]:
    progress = Progress()
    return progress.bench(captioner).run(data), progress.words


def test_all_arms_give_the_same_tokens_transformers_included(
    found: tuple[list[ClipRuns], list[str]],
) -> None:
    for runs in found[0]:
        assert len({run.tokens for run in runs.values()}) == 1
        assert len({run.text for run in runs.values()}) == 1
        assert len(runs["plain"].tokens) > 8
    assert sum(runs["sd"].accepted for runs in found[0]) > 0


def test_arms_run_in_turn_after_a_warm_up_of_each(
    found: tuple[list[ClipRuns], list[str]],
) -> None:
    names = [arm.name for arm in ARMS]
    places = [word for word in found[1] if not word.endswith("decoding")]
    expected = [f"warming up {name}" for name in names]
    for index in range(3):
        order = names[index:] + names[:index]
        expected += [f"clip {index + 1} of 3: {name}" for name in order]
    assert places == expected


def test_runs_account_for_the_models_that_ran(found: tuple[list[ClipRuns], list[str]]) -> None:
    for runs in found[0]:
        plain, sd, transformers = runs["plain"], runs["sd"], runs["transformers"]
        assert plain.draft_visual_tokens is None
        assert sd.draft_visual_tokens == sd.visual_tokens == transformers.visual_tokens == 64
        assert (plain.draft_calls, plain.drafted, plain.rejections) == (0, 0, 0)
        assert sd.draft_calls == 5 * sd.rounds == sd.drafted
        assert runs["sd-tree"].draft_calls == 5 * runs["sd-tree"].rounds
        assert 0 < sd.rejections <= sd.rounds
        assert sd.rejections_on_facts is not None
        assert plain.rounds == transformers.rounds == len(plain.tokens) - 1
        assert len(plain.margins or ()) == len(plain.tokens)
        assert sd.margins is None


def test_times_include_the_shared_decoding_of_the_clip(
    found: tuple[list[ClipRuns], list[str]], captioner: Captioner, data: DataSet
) -> None:
    for run in (run for runs in found[0] for run in runs.values()):
        # The draft's part of the prefill comes behind the first token.
        assert 0 < run.prefill_s < run.total_s
        assert 0 < run.ttft_s < run.total_s
        assert run.ttft_s + run.decode_s <= run.total_s * 1.001
        assert run.peak_memory_bytes is None or run.peak_memory_bytes > 2**20
    bench = Progress().bench(captioner, ARMS[:1])
    slow = bench._decode(data.clips[0])
    runner = bench._runner(ARMS[0])
    run = runner.run(data.clips[0], replace(slow, decode_s=100.0), "k")
    assert 100 < run.ttft_s < run.total_s < 110
    assert run.decode_s < 10


def test_margins_are_those_of_decoding_step_by_step(
    captioner: Captioner, data: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation = GenerationSettings(max_tokens=12, repetition_penalty=1.2)
    monkeypatch.setattr(captioner, "_setup", replace(captioner._setup, generation=generation))
    plain = captioner.variant(method_settings("plain"))
    seen: list[float] = []

    class Noting:
        def judge(self, proposal: Any, scores: torch.Tensor, step: Any) -> Accepted:
            best = scores[0, -1].topk(2)
            seen.append(float(best.values[0] - best.values[1]))
            return Accepted((0,), (int(best.indices[0]),))

    monkeypatch.setattr("vidcap.engine.request.StrictGreedy", Noting)
    (runs,) = Progress().bench(plain, ARMS[:1]).run(replace(data, clips=data.clips[:1]))
    length = len(runs["plain"].tokens)
    assert runs["plain"].margins == pytest.approx(seen[-length:], abs=1e-4)


def run_arms(captioner: Captioner, data: DataSet, *names: str) -> ClipRuns:
    """The runs of some arms on the first clip."""
    arms = make_arms(names, {}, {})
    (runs,) = Progress().bench(captioner, arms).run(replace(data, clips=data.clips[:1]))
    return runs


def test_transformers_drafts_with_the_draft_and_with_the_prompt(
    captioner: Captioner, data: DataSet
) -> None:
    runs = run_arms(captioner, data, "plain", "transformers-assisted", "transformers-lookup")
    plain, assisted, lookup = runs.values()
    assert assisted.tokens == lookup.tokens == plain.tokens
    for run in (assisted, lookup):
        assert run.first_tokens + run.rounds + run.accepted == len(run.tokens)
        assert run.accepted <= run.drafted
        assert run.prefill_s + run.decode_s < run.total_s
    assert 0 < assisted.drafted <= assisted.draft_calls
    assert (assisted.visual_tokens, assisted.draft_visual_tokens) == (64, 0)
    assert (lookup.draft_calls, lookup.draft_visual_tokens) == (0, None)


def test_a_draft_of_another_width_is_refused_in_one_line(
    captioner: Captioner, data: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = captioner.load().draft.model  # type: ignore[union-attr]
    monkeypatch.setattr(draft.config.get_text_config(), "vocab_size", 9)
    with pytest.raises(UsageError, match="no draft whose vocabulary has 9 rows beside the target"):
        run_arms(captioner, data, "transformers-assisted")


def test_samples_come_from_the_seed_alone(
    captioner: Captioner, data: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sample(seed: int) -> list[tuple[int, ...]]:
        generation = GenerationSettings(MAX_TOKENS, temperature=2.0, top_p=0.99, seed=seed)
        monkeypatch.setattr(captioner, "_setup", replace(captioner._setup, generation=generation))
        runs = run_arms(captioner, data, "plain", "transformers", "transformers-assisted")
        assert runs["plain"].margins is None
        return [run.tokens for run in runs.values()]

    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    first = sample(7)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert sample(7) == first
    assert all(one != other for one, other in zip(sample(8), first, strict=True))


def test_transformers_gets_its_attention_only_for_the_call(captioner: Captioner) -> None:
    config = captioner.load().target.model.config  # type: ignore[attr-defined]
    assert config.text_config._attn_implementation == ATTENTION_NAME


def test_positions_of_the_prompt_go_on_behind_the_video(
    captioner: Captioner, data: DataSet
) -> None:
    target = captioner.load().target
    with torch.inference_mode():
        prefix = target.encode(
            target.prepare(captioner.decode(data.clips[0].path).rgb, 2.0), "reference"
        )
    suffix = target.suffix_ids("What moves?")
    ids, positions = full_prompt(prefix, suffix)
    assert ids.shape[1] == positions.shape[2] == prefix.length + suffix.shape[1]
    behind = positions[:, 0, prefix.length :]
    assert (behind == torch.arange(suffix.shape[1]) + prefix.position_ids.max() + 1).all()


def test_a_second_run_does_only_what_is_missing(
    captioner: Captioner, data: DataSet, tmp_path: Path
) -> None:
    path, arms = tmp_path / "runs.jsonl", ARMS[:2]
    first = replace(data, clips=data.clips[:1])
    with RunStore(path) as store:
        before = Progress().bench(captioner, arms, store).run(first)
    progress = Progress()
    with RunStore(path) as store:
        bench = progress.bench(captioner, [*arms, ARMS[3]], store)
        after = bench.run(replace(data, clips=data.clips[:2]))
        assert bench.reused == 2
    assert [words for words in progress.words if words.startswith("clip 1")] == [
        "clip 1 of 2: decoding",
        "clip 1 of 2: transformers",
    ]
    assert {name: after[0][name] for name in ("plain", "sd")} == before[0]
    again = Progress()
    with RunStore(path) as store:
        bench = again.bench(captioner, [*arms, ARMS[3]], store)
        assert bench.run(replace(data, clips=data.clips[:2])) == after
        assert bench.reused == 6
        assert bench.ran_on == {"device": "cpu", "dtype": "float32"}
    assert again.words == []


@pytest.mark.parametrize("change", ["prompt", "truth", "machine", "tokens", "part"])
def test_other_settings_are_run_anew(
    captioner: Captioner, data: DataSet, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, progress = RunStore(), Progress()
    clip = data.clips[0]
    one = replace(data, clips=(clip,))
    arms = make_arms(["sd"], {}, {})
    progress.bench(captioner, arms, store, {"cpu": "a"}).run(one)
    machine = {"cpu": "a"}
    if change == "prompt":
        one = replace(data, clips=(replace(clip, prompt="What?"),))
    elif change == "truth":
        one = replace(data, clips=(replace(clip, truth=None),))
    elif change == "machine":
        machine = {"cpu": "b"}
    elif change == "tokens":
        generation = GenerationSettings(max_tokens=3)
        monkeypatch.setattr(captioner, "_setup", replace(captioner._setup, generation=generation))
    else:
        arms = make_arms(["sd"], {"draft-tokens": "2"}, {})
    bench = progress.bench(captioner, arms, store, machine)
    (runs,) = bench.run(one)
    assert bench.reused == 0
    assert isinstance(runs["sd"], ArmRun)


def test_a_clip_that_cannot_be_read_is_left_out_for_all_arms(
    captioner: Captioner, data: DataSet, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    clips = (Clip("broken", broken, "x", "What?"), data.clips[0])
    progress = Progress()
    found = progress.bench(captioner, ARMS[:1]).run(DataSet(clips))
    assert [list(runs) for runs in found] == [["plain"]]
    assert progress.errors == [("broken", progress.errors[0][1])]
    assert "not a video" in progress.errors[0][1]


def test_answers_are_checked(captioner: Captioner, data: DataSet) -> None:
    clip = replace(data.clips[0], truth=None, answer="no such words", question_kind="count")
    (runs,) = Progress().bench(captioner, ARMS[:1]).run(DataSet((clip,)))
    assert (runs["plain"].answer_right, runs["plain"].question_kind) == (False, "count")
    assert (runs["plain"].facts, runs["plain"].rejections_on_facts) == (None, None)


def test_an_arm_that_drafts_needs_a_draft(
    captioner: Captioner, data: DataSet, tiny_target: Path
) -> None:
    alone = Captioner(
        ModelSettings(target=str(tiny_target), use_draft=False, threads=1, dtype="float32"),
        captioner.video,
        captioner.generation,
        method_settings("plain"),
    )
    with pytest.raises(UsageError, match="no draft"):
        Progress().bench(alone).run(data)
    with pytest.raises(UsageError, match="'transformers-assisted' drafts, but no draft model"):
        run_arms(alone, data, "transformers-assisted")


def test_a_closed_session_tells_no_margins(captioner: Captioner, data: DataSet) -> None:
    session: VideoSession = captioner.open(data.clips[0].path)
    session.close()
    with pytest.raises(ValueError, match="closed"):
        session.margins("What?", [1, 2])


@pytest.mark.parametrize(
    ("parts", "calls"),
    [
        ({"tree": "dynamic", "tree-depth": "3"}, 3),
        ({"draft-tokens": "4", "lookup-branch": "3"}, 4),
    ],
)
def test_draft_calls_are_counted_for_every_drafter(
    captioner: Captioner, data: DataSet, parts: dict[str, str], calls: int
) -> None:
    arms = make_arms(["sd"], parts, {})
    (runs,) = Progress().bench(captioner, arms).run(replace(data, clips=data.clips[:1]))
    assert runs["sd"].draft_calls == calls * runs["sd"].rounds > 0
