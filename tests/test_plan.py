"""Plans against what is really decoded and prepared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.video.clips import ClipMaker
from vidcap.demo.clips import write_mp4
from vidcap.demo.scenes import FIRST_WORLD, sample_scene
from vidcap.engine.prune.select import budget
from vidcap.errors import ModelError
from vidcap.models import pair
from vidcap.models.geometry import read_geometry
from vidcap.models.loading import load_model
from vidcap.models.machine import Device
from vidcap.plan import Planner, kept_tokens, plan_data, planner_data, window_times
from vidcap.settings import ModelSettings, VideoSettings, method_settings
from vidcap.video import load_frames, load_windows, plan_sampling, probe


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "clip.mp4"
    write_mp4(sample_scene(3, FIRST_WORLD), path, fps=8)
    return path


def make_planner(pair: str, video: VideoSettings, method: str = "sd", **parts: object) -> Planner:
    return Planner(
        ModelSettings(pair=pair, device="cpu"),
        video,
        method_settings(method, **parts),
        prompt="Describe this video.",
        max_tokens=64,
    )


def test_what_decoding_changes_about_the_pictures_is_told(
    tiny_target: Path, tiny_draft: Path, tmp_path: Path
) -> None:
    make, planner = (
        ClipMaker(tmp_path),
        make_planner(f"{tiny_target}+{tiny_draft}", VideoSettings()),
    )
    plain = planner.plan(make("plain.mp4", frames=3))
    assert plain.warnings == ()
    woven = planner.plan(make("woven.mp4", frames=3, **{"x264-params": "tff=1"}))
    assert woven.warnings == ("interlaced video: its frames will be deinterlaced",)
    bright = planner.plan(make("bright.mp4", frames=3, **{"x264-params": "transfer=smpte2084"}))
    assert bright.warnings == (
        "HDR video (PQ) is fitted to an ordinary screen: colours are approximate",
    )
    data = [plan_data(plan)["video"] for plan in (plain, woven, bright)]
    assert [(video["interlaced"], video["hdr"]) for video in data] == [
        (False, None),
        (True, None),
        (False, "PQ"),
    ]


@pytest.mark.parametrize(
    "video",
    [
        VideoSettings(),
        VideoSettings(fps=3.3),
        VideoSettings(fps=100),
        VideoSettings(max_frames=3),
        VideoSettings(start_s=0.7, end_s=2.1, max_pixels=5000),
    ],
)
def test_a_plan_is_what_happens(
    tiny_target: Path, tiny_draft: Path, clip: Path, video: VideoSettings
) -> None:
    plan = make_planner(f"{tiny_target}+{tiny_draft}", video).plan(clip)
    geometry = read_geometry(tiny_target)
    frames = load_frames(
        clip, video, lambda n, h, w: geometry.frame_size(n, h, w, video.max_pixels)
    )
    assert len(plan.windows[0]) == len(frames.rgb)
    assert (plan.height, plan.width) == frames.rgb.shape[1:3]
    # The frame nearest to a moment is at most half a frame's time away, at the ends a whole one.
    assert max(abs(frames.times_s - plan.windows[0])) <= 1 / 8
    model = load_model(tiny_target, torch.device("cpu"), torch.float32)
    inputs = model.prepare(frames.rgb, fps=2.0)
    assert plan.visual_tokens == plan.draft_visual_tokens == inputs.visual_tokens
    real = inputs.ids.shape[1] + model.suffix_ids("Describe this video.").shape[1]
    assert abs(plan.prompt_tokens - real) < 32


def test_a_pruned_draft_needs_less(tiny_target: Path, tiny_draft: Path, clip: Path) -> None:
    name = f"{tiny_target}+{tiny_draft}"
    full = make_planner(name, VideoSettings()).plan(clip)
    pruned = make_planner(name, VideoSettings(), prune=0.75).plan(clip)
    assert pruned.draft_visual_tokens == full.visual_tokens // 4
    assert pruned.memory.draft.keys_values < full.memory.draft.keys_values
    assert pruned.memory.target == full.memory.target


@pytest.mark.parametrize("drop", [0.0, 0.1, 0.3, 0.9, 0.95, 1.0])
def test_the_draft_keeps_as_much_as_the_pruner_leaves(drop: float) -> None:
    assert [kept_tokens(n, drop) for n in range(1200)] == [budget(n, drop) for n in range(1200)]


@pytest.mark.parametrize(("method", "draft"), [("plain", False), ("lookup", False), ("self", True)])
def test_methods_without_a_draft_model_need_none(
    tiny_target: Path, clip: Path, method: str, draft: bool
) -> None:
    planner = make_planner(str(tiny_target), VideoSettings(), method)
    memory = planner.plan(clip).memory
    assert planner.draft is None
    assert (memory.draft is not None) == draft
    assert memory.draft is None or memory.draft.weights == 0


def test_a_video_of_unknown_rate_or_length_still_has_a_plan(clip: Path) -> None:
    info = probe(clip)
    assert window_times(plan_sampling(VideoSettings(), None), 8.0) == (0.0,)
    dense = plan_sampling(VideoSettings(fps=100, max_frames=500), info.duration_s)
    assert len(window_times(dense, None)) == round(info.duration_s * 100)
    assert len(window_times(dense, info.average_fps)) == round(info.duration_s * 8)


def test_windows_are_planned_one_by_one_for_the_memory_of_one(
    tiny_target: Path, tiny_draft: Path, clip: Path
) -> None:
    name = f"{tiny_target}+{tiny_draft}"
    video = VideoSettings(every_s=1.0)
    plan = make_planner(name, video).plan(clip)
    geometry = read_geometry(tiny_target)
    real = list(load_windows(clip, video, geometry.frame_size))
    assert [len(times) for times in plan.windows] == [len(window.frames.rgb) for window in real]
    assert [times[0] for times in plan.windows] == [window.start_s for window in real]
    whole = make_planner(name, VideoSettings()).plan(clip)
    assert plan.memory.total < whole.memory.total
    assert plan.visual_tokens < whole.visual_tokens
    assert plan_data(plan)["frames"]["count"] == plan_data(whole)["frames"]["count"]


def test_a_prompt_beyond_the_context_is_told(
    tiny_target: Path, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner = make_planner(str(tiny_target), VideoSettings(), "plain")
    monkeypatch.setattr(planner, "_target", replace(planner._target, context=100))
    (warning,) = planner.plan(clip).warnings
    assert "64 for the answer are more than the 100 that the model holds" in warning


def test_without_a_name_the_largest_preset_that_fits_is_planned(
    monkeypatch: pytest.MonkeyPatch, clip: Path
) -> None:
    def machine(memory_bytes: int) -> None:
        device = Device("cuda:0", "GPU", memory_bytes, bf16=True)
        monkeypatch.setattr(pair, "find_devices", lambda name: (device,))
        monkeypatch.setattr("vidcap.plan.find_devices", lambda name: (device,))

    def planned() -> tuple[str, bool, str | None]:
        planner = Planner(
            ModelSettings(), VideoSettings(), method_settings("sd"), prompt="", max_tokens=9
        )
        return planner.pair.name, planner.plan(clip).fits, planner.notice

    machine(150_000_000_000)
    assert planned() == ("qwen2.5-vl-32b", True, None)
    # A pair that nobody is advised to fetch is larger than the largest 7B.
    machine(40_000_000_000)
    assert planned() == ("qwen3-vl-8b", True, None)
    machine(8_000_000_000)
    words = (
        "no preset fits this machine with a video of 16,384 visual tokens, "
        "not even llava-onevision-7b, which this plan is for"
    )
    assert planned() == ("llava-onevision-7b", False, words)


def test_each_device_must_hold_its_own(monkeypatch: pytest.MonkeyPatch, clip: Path) -> None:
    devices = {"cuda:0": 20, "cuda:1": 10}

    def find(name: str) -> tuple[Device]:
        return (Device(name, "GPU", devices[name] * 10**9, bf16=True),)

    monkeypatch.setattr("vidcap.plan.find_devices", find)
    settings = ModelSettings(pair="qwen2.5-vl-7b", device="cuda:0", draft_device="cuda:1")
    planner = Planner(settings, VideoSettings(), method_settings("sd"), prompt="", max_tokens=9)
    assert planner.plan(clip).fits
    devices["cuda:1"] = 8
    crowded = Planner(settings, VideoSettings(), method_settings("sd"), prompt="", max_tokens=9)
    assert not crowded.plan(clip).fits


def test_a_target_that_is_spread_counts_its_devices_as_one(
    monkeypatch: pytest.MonkeyPatch, clip: Path
) -> None:
    memory = Device("cpu", "CPU", 256 * 10**9, bf16=False)

    def plan(sizes: list[int]) -> tuple[str, bool, tuple[str, ...]]:
        gpus = [
            Device(f"cuda:{index}", "GPU", size * 10**9, bf16=True)
            for index, size in enumerate(sizes)
        ]
        monkeypatch.setattr("vidcap.plan.find_devices", lambda name: (*gpus, memory))
        settings = ModelSettings(pair="qwen2.5-vl-7b")
        planner = Planner(settings, VideoSettings(), method_settings("sd"), prompt="", max_tokens=9)
        planned = planner.plan(clip)
        return planner.device.name, planned.fits, planned.warnings

    assert plan([80, 80]) == ("cuda:0", True, ())
    assert plan([20, 80]) == ("cuda:1", True, ())
    assert plan([20, 20]) == ("cuda:0,cuda:1", True, ())
    name, fitting, (warning,) = plan([20])
    assert (name, fitting) == ("cuda:0,cpu", False)
    assert "of the target's 28 layers have no room on the GPUs" in warning


def test_unknown_models_must_be_fetched_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vidcap.models.hub.cached_model", lambda name, revision=None: None)
    with pytest.raises(ModelError, match="'x/y' is not cached, its sizes are not known") as caught:
        make_planner("x/y", VideoSettings(), "plain")
    assert "`vidcap models pull x/y`" in caught.value.hint


def test_the_data_is_complete(tiny_target: Path, tiny_draft: Path, clip: Path) -> None:
    planner = make_planner(f"{tiny_target}+{tiny_draft}", VideoSettings())
    data = planner_data(planner) | plan_data(planner.plan(clip))
    assert data["device"]["name"] == "cpu"
    memory = data["memory"]
    models = [*memory["target"].values(), *memory["draft"].values()]
    parts = [*models, memory["working_bytes"], memory["process_bytes"]]
    assert memory["total_bytes"] == sum(parts)
    assert all(part > 0 for part in parts)
    assert data["frames"]["count"] == len(data["frames"]["times_s"])
