"""A batch on a real, tiny pair: the texts are those of one video alone."""

from __future__ import annotations

import io
import json
import weakref
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import torch

from vidcap import Captioner, footage
from vidcap.batch.feed import KnownFeed
from vidcap.batch.jobs import find_jobs
from vidcap.batch.line_forms import line_form
from vidcap.batch.out_file import FileSink
from vidcap.batch.requests import Request
from vidcap.batch.runner import Batch
from vidcap.batch.sinks import StreamSink
from vidcap.cli.signals import Interrupts
from vidcap.demo.clips import write_mp4
from vidcap.demo.scenes import FIRST_WORLD, sample_scene
from vidcap.errors import ModelError
from vidcap.output.record import record_schema
from vidcap.output.writer import make_writer
from vidcap.session import VideoSession
from vidcap.settings import GenerationSettings, ModelSettings, VideoSettings, method_settings

PROMPT = "What moves?"
REQUEST = Request("describe", PROMPT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    for seed in (3, 4):
        write_mp4(sample_scene(seed, FIRST_WORLD), folder / f"{seed}.mp4")
    return folder


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(tiny_target: Path, tiny_perturbed: Path) -> ModelSettings:
    pair = f"{tiny_target}+{tiny_perturbed}"
    return ModelSettings(pair=pair, device="cpu", dtype="float32", threads=1)


def make(model: ModelSettings, video: VideoSettings | None = None) -> Captioner:
    generation = GenerationSettings(max_tokens=12)
    return Captioner(model, video or VideoSettings(), generation, method_settings("sd"))


class Quiet:
    """A host that keeps what failed."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def loading(self): ...
    def loaded(self): ...
    def stage(self, what, path): ...
    def words(self): ...
    def answered(self, record): ...
    def skipped(self, path): ...
    def finished(self, path): ...

    def failed(self, path, error):
        self.errors.append(error)


def run(captioner: Captioner, path: Path, ahead: int = 0) -> list[dict]:
    stream, host = io.StringIO(), Quiet()
    sink = StreamSink(make_writer("jsonl", stream, inputs=2, questions=1))
    batch = Batch(captioner, sink, Interrupts(), host, ahead=ahead)
    batch.run(KnownFeed(find_jobs(str(path))), [REQUEST])
    assert host.errors == []
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    for record in found:
        jsonschema.validate(record, record_schema())
    return found


def alone(captioner: Captioner, path: Path) -> str | None:
    with captioner.open(path) as session:
        return session.answer(PROMPT).text


def test_a_batch_says_what_each_video_alone_says(model, folder):
    records = run(make(model), folder)
    captioner = make(model)
    assert [record["text"] for record in records] == [
        alone(captioner, folder / f"{seed}.mp4") for seed in (3, 4)
    ]


def test_windows_say_what_the_ranges_alone_say(model, folder):
    (record,) = run(make(model, VideoSettings(every_s=1.5)), folder / "3.mp4")
    assert len(record["segments"]) > 1
    for segment in record["segments"]:
        video = VideoSettings(start_s=segment["start_s"], end_s=segment["end_s"])
        assert segment["text"] == alone(make(model, video), folder / "3.mp4")
    assert record["segments"][-1]["end_s"] == record["video"]["duration_s"]
    assert len(record["video"]["frame_times_s"]) == record["video"]["frames_used"]


def test_no_more_than_one_window_is_held(model, folder, monkeypatch):
    alive, counts = [], []
    original = footage.load_windows

    def note(window):
        alive.append(weakref.ref(window.frames.rgb.base))
        counts.append(sum(reference() is not None for reference in alive))
        return window

    monkeypatch.setattr(footage, "load_windows", lambda *a, **how: map(note, original(*a, **how)))
    run(make(model, VideoSettings(every_s=1)), folder / "3.mp4")
    assert len(counts) > 1
    assert set(counts) == {1}


def test_decoder_and_models_share_the_threads(model, folder, monkeypatch):
    seen = []
    original = footage.load_frames

    def load_frames(path, *args, threads, should_stop):
        seen.append((Path(path).name, threads))
        return original(path, *args, threads=threads, should_stop=should_stop)

    monkeypatch.setattr(footage, "load_frames", load_frames)
    captioner = make(replace(model, threads=4))
    assert captioner.decode_ahead()
    run(captioner, folder, ahead=1)
    # The first was decoded while nothing else ran, the second while the models did.
    assert seen == [("3.mp4", 4), ("4.mp4", 1)]
    assert torch.get_num_threads() == 3
    few = make(replace(model, threads=2))
    assert not few.decode_ahead()
    few.load()
    assert torch.get_num_threads() == 2


def _memory_for(frames: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Makes memory run out where a session gets more frames; returns the tries."""
    tries: list[int] = []
    original = VideoSession._prepare

    def prepare(self, given):
        tries.append(len(given.times_s))
        if len(given.times_s) > frames:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
        return original(self, given)

    monkeypatch.setattr(VideoSession, "_prepare", prepare)
    return tries


def test_memory_that_runs_out_is_tried_once_more_with_half_the_frames(model, folder, monkeypatch):
    tries = _memory_for(4, monkeypatch)
    (record,) = run(make(model), folder / "3.mp4")
    assert tries[1] == (tries[0] + 1) // 2
    assert record["video"]["frames_used"] == tries[1]
    note = f"out of memory with {tries[0]} frames, done with {tries[1]}"
    assert record["warnings"] == [note]
    assert record["status"] == "ok"


def test_memory_that_runs_out_at_one_frame_ends_the_run(model, folder, monkeypatch):
    _memory_for(0, monkeypatch)
    with pytest.raises(ModelError, match="out of memory at one frame"):
        run(make(model, VideoSettings(max_frames=1)), folder)


def test_a_second_run_loads_nothing(model, folder, tmp_path):
    out = tmp_path / "out.jsonl"
    for expected in (2, 0):
        captioner = make(model)
        sink = FileSink(out, line_form("jsonl"))
        batch = Batch(captioner, sink, Interrupts(), Quiet())
        tally = batch.run(KnownFeed(find_jobs(str(folder))), [REQUEST])
        sink.close()
        assert (tally.answered, tally.skipped) == (expected, 2 - expected)
        assert (captioner.load_s is None) is (expected == 0)
