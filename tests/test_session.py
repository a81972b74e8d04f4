"""From a file to a record, with a tiny pair."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.tiny import transformers_greedy
from vidcap import Captioner, load_pair
from vidcap.demo.clips import write_mp4
from vidcap.demo.scenes import FIRST_WORLD, sample_scene
from vidcap.engine.schedule import ThreadLane
from vidcap.errors import InputError, UsageError
from vidcap.models.geometry import read_geometry
from vidcap.models.loading import load_model
from vidcap.output.record import Record
from vidcap.settings import (
    GenerationSettings,
    ModelSettings,
    SpeculationSettings,
    VideoSettings,
    method_settings,
)
from vidcap.trace import Trace
from vidcap.video import load_frames


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    write_mp4(sample_scene(3, FIRST_WORLD), path)
    return path


@pytest.fixture(scope="module")
def model(tiny_target: Path, tiny_perturbed: Path) -> ModelSettings:
    pair = f"{tiny_target}+{tiny_perturbed}"
    return ModelSettings(pair=pair, device="cpu", dtype="float32", threads=1)


def make(
    model: ModelSettings, method: str | SpeculationSettings = "sd-tree", **parts: object
) -> Captioner:
    return Captioner(
        model,
        parts.get("video", VideoSettings()),
        parts.get("generation", GenerationSettings(max_tokens=30)),
        method_settings(method) if isinstance(method, str) else method,
    )


def describe(captioner: Captioner, clip: Path, prompt: str = "What moves?") -> Record:
    with captioner.open(clip) as session:
        return session.answer(prompt)


def test_every_method_gives_transformers_text_for_a_file(
    model: ModelSettings, clip: Path, tiny_target: Path
) -> None:
    names = ("plain", "sd", "sd-tree", "parallelvlm")
    records = {name: describe(make(model, name), clip) for name in names}
    adapter = load_model(tiny_target, torch.device("cpu"), torch.float32)
    frames = load_frames(clip, VideoSettings(), read_geometry(tiny_target).frame_size)
    inputs = adapter.prepare(frames.rgb, 2.0)
    prefix = adapter.encode(inputs, "reference")
    expected = transformers_greedy(
        adapter,
        inputs,
        prefix,
        adapter.suffix_ids("What moves?"),
        max_tokens=30,
        stop_ids=adapter.rules.stop_ids,
    )
    text = adapter.tokenizer.decode(expected, skip_special_tokens=True)
    assert {record.text for record in records.values()} == {text}
    assert {record.tokens.generated for record in records.values()} == {len(expected)}
    assert records["sd-tree"].speculation.num_accepted_draft_tokens > 0
    hashes = {record.settings_hash for record in records.values()}
    assert len(hashes) == 1


def test_a_record_tells_of_loosened_drafts(
    model: ModelSettings, clip: Path, tiny_target: Path, tiny_draft: Path
) -> None:
    far = replace(model, pair=f"{tiny_target}+{tiny_draft}")
    parts = {"verify": "loose", "lvspec_mode": "paper"}
    loose, strict = (
        describe(make(far, method_settings("auto", loose_fraction=fraction, **parts)), clip)
        for fraction in (1.0, 0.0)
    )
    assert loose.speculation.verify == strict.speculation.verify == "loose"
    assert 0 < loose.speculation.loosened_tokens <= loose.speculation.num_accepted_draft_tokens
    assert strict.speculation.loosened_tokens == 0
    assert strict.text == describe(make(model, "plain"), clip).text
    assert loose.settings_hash != strict.settings_hash


def test_guarded_words_are_not_loosened(
    model: ModelSettings,
    clip: Path,
    tiny_target: Path,
    tiny_draft: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "vidcap.models.adapter.fact_token_ids",
        lambda tokenizer: frozenset(tokenizer.get_vocab().values()),
    )
    far = replace(model, pair=f"{tiny_target}+{tiny_draft}")
    parts = {"loose_fraction": 1.0, "loose_delta": 0.0, "prune": 0.0}
    guarded, free = (
        describe(make(far, method_settings("lvspec", guard_words=words, **parts)), clip)
        for words in ("on", "off")
    )
    assert guarded.speculation.loosened_tokens == 0 < free.speculation.loosened_tokens
    assert guarded.settings_hash != free.settings_hash


def test_a_record_accounts_for_the_run(model: ModelSettings, clip: Path) -> None:
    record = describe(make(model), clip)
    frames = record.video.frames_used
    assert frames == len(record.video.frame_times_s) > 4
    assert record.tokens.visual == record.tokens.draft_visual
    assert record.tokens.prompt > record.tokens.visual
    speculation, timing = record.speculation, record.timing
    assert sum(speculation.acceptance_histogram) == speculation.num_spec_steps
    weighted = sum(i * n for i, n in enumerate(speculation.acceptance_histogram))
    assert weighted == speculation.num_accepted_draft_tokens
    assert speculation.mean_acceptance_length == pytest.approx(
        (record.tokens.generated - 1) / speculation.num_spec_steps
    )
    assert timing.decode_s >= timing.draft_s + timing.verify_s
    assert timing.ttft_s <= timing.total_s
    assert timing.vision_s > 0
    assert record.source.size == clip.stat().st_size


@pytest.mark.parametrize("method", ["parallelvlm", "sd"])
def test_a_trace_holds_every_stage_of_every_thread(
    model: ModelSettings, clip: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One thread for each side, on machines with a single core too.
    monkeypatch.setattr("vidcap.engine.schedule.parallel.open_lane", lambda *at: ThreadLane(at))
    captioner, trace = make(model, method), Trace()
    captioner.record_trace(trace)
    with captioner.open(clip) as session:
        record = session.answer("What moves?")
        session.margins("What moves?", [70])
    rows: dict[str, set[int]] = {}
    for event in trace.chrome()["traceEvents"]:
        if event["ph"] == "X":
            rows.setdefault(event["name"], set()).add(event["tid"])
    stages = {"decode video", "load models", "preprocess", "answer", "target vision"}
    stages |= {"draft vision", "target prefill", "draft prefill"}
    stages |= {"round", "draft", "verify", "commit"}
    assert stages <= set(rows)
    assert rows["decode video"] != rows["load models"]
    beside = method == "parallelvlm"
    assert (rows["draft vision"] != rows["target vision"]) == beside
    assert (record.timing.overlap_s > 0) == beside


def test_a_parallel_method_accounts_for_its_first_question(
    model: ModelSettings, clip: Path
) -> None:
    with make(model, "parallelvlm").open(clip) as session:
        first = session.answer("What moves?")
        second = session.answer("How many?")
    assert first.timing.vision_s > 0
    assert first.tokens.draft_visual == first.tokens.visual // 10
    assert second.timing.vision_s == 0
    assert second.text == describe(make(model, "plain"), clip, "How many?").text


def test_later_questions_reuse_the_video(model: ModelSettings, clip: Path) -> None:
    with make(model).open(clip) as session:
        first = session.answer("What moves?", kind="ask", question="What moves?")
        second = session.answer("How many?", kind="ask", question="How many?")
    assert first.timing.vision_s > 0
    assert second.timing.vision_s == 0
    assert second.timing.decode_video_s == 0
    assert second.timing.target_prefill_s > 0
    assert second.text == describe(make(model, "plain"), clip, "How many?").text
    assert first.settings_hash != second.settings_hash


def test_pieces_stream_and_add_up(model: ModelSettings, clip: Path) -> None:
    pieces: list[str] = []
    with make(model).open(clip) as session:
        record = session.answer("What moves?", on_text=pieces.append)
    assert "".join(pieces) == record.text
    assert len(pieces) > 3


def test_stopping_keeps_the_partial_text(model: ModelSettings, clip: Path) -> None:
    asked = iter([False, False, True])
    with make(model, "plain").open(clip) as session:
        record = session.answer("What moves?", should_stop=lambda: next(asked))
    assert record.finish_reason == "interrupted"
    assert record.tokens.generated == 3
    assert describe(make(model, "plain"), clip).text.startswith(record.text.rstrip("\ufffd"))


def test_prefetched_frames_are_used_once(model: ModelSettings, clip: Path) -> None:
    captioner = make(model)
    captioner.prefetch(clip)
    captioner.prefetch(clip)
    assert describe(captioner, clip).text == describe(captioner, clip).text


def test_errors_of_the_decoding_thread_arrive(model: ModelSettings, tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"this is no video at all")
    captioner = make(model)
    captioner.prefetch(broken)
    with pytest.raises(InputError, match="not a video"):
        captioner.open(broken)
    record = captioner.error_record(str(broken), InputError("not a video"), "ask", "p", "q")
    assert (record.status, record.error.type) == ("error", "InputError")


def test_a_prompt_longer_than_the_model_is_refused(model: ModelSettings, clip: Path) -> None:
    captioner = make(model, generation=GenerationSettings(max_tokens=32768))
    with pytest.raises(InputError, match="prompt tokens"):
        captioner.open(clip)


def test_control_tokens_in_a_prompt_leave_the_session_usable(
    model: ModelSettings, clip: Path
) -> None:
    with make(model).open(clip) as session:
        with pytest.raises(UsageError, match="control token"):
            session.answer("<|im_end|>")
        assert session.answer("What moves?").text


def test_the_api_in_two_lines(model: ModelSettings, clip: Path) -> None:
    captioner = load_pair(model=model, method="sd")
    with captioner.open(clip) as session:
        assert session.answer("What moves?").speculation.method == "sd"
    with pytest.raises(UsageError):
        load_pair("demo", model=model)


def test_variants_share_the_loaded_pair(model: ModelSettings, clip: Path) -> None:
    captioner = make(model)
    captioner.load()
    plain = captioner.variant(method_settings("plain"))
    assert plain.load() is captioner.load()
    frames = captioner.decode(clip)
    with plain.open_frames(str(clip), frames) as session:
        record = session.answer("What moves?")
    assert record.speculation.method == "plain"
    assert record.tokens.draft_visual is None
    assert record.text == describe(captioner, clip).text
    with pytest.raises(UsageError, match="no draft"):
        make(model, "plain").variant(method_settings("sd"))


def test_what_is_no_video_is_known_before_anything_is_loaded(
    model: ModelSettings, clip: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"this is no video at all")
    captioner = make(model)
    with pytest.raises(InputError, match="not a video"):
        captioner.check(broken)
    captioner.check(clip)
    assert captioner.load_s is None


def test_a_record_says_whether_the_vision_tower_is_shared(
    model: ModelSettings, clip: Path, tiny_target: Path, tiny_draft: Path
) -> None:
    twins, strangers = (
        replace(model, pair=f"{tiny_target}+{draft}") for draft in (tiny_target, tiny_draft)
    )
    shared, apart, blind = (
        describe(make(twins, method_settings("sd", **parts)), clip)
        for parts in ({}, {"shared_tower": "off"}, {"prune": 1.0})
    )
    assert shared.model.shared_tower is True
    assert apart.model.shared_tower is blind.model.shared_tower is False
    assert shared.text == apart.text == blind.text
    assert shared.speculation == apart.speculation
    assert describe(make(strangers), clip).model.shared_tower is False
    assert describe(make(twins, "plain"), clip).model.shared_tower is None


@pytest.mark.parametrize(("value", "runs"), [("on", 1), ("off", 2)])
def test_a_shared_tower_runs_once_for_a_video(
    model: ModelSettings, clip: Path, tiny_target: Path, value: str, runs: int
) -> None:
    twins = replace(model, pair=f"{tiny_target}+{tiny_target}")
    captioner = make(twins, method_settings("parallelvlm", shared_tower=value))
    calls: list[int] = []
    block = captioner.load().target.model.model.visual.blocks[0]
    block.register_forward_pre_hook(lambda *_: calls.append(1))
    with captioner.open(clip) as session:
        answers = [session.answer("What moves?").text for _ in range(2)]
    assert len(calls) == runs
    assert answers == [describe(make(model, "plain"), clip).text] * 2
