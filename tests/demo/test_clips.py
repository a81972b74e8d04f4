from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import pytest

from vidcap.demo.clips import LAST_SEED, through_codec, write_dataset, write_mp4
from vidcap.demo.scenes import FIRST_WORLD, frame_times, render_frames, sample_scene
from vidcap.demo.score import score_caption


def decoded(path: Path) -> np.ndarray:
    with av.open(str(path)) as container:
        return np.stack([f.to_ndarray(format="rgb24") for f in container.decode(video=0)])


@pytest.mark.parametrize("crf", [18, 26, 34])
def test_the_codec_keeps_frames_in_number_order_and_look(crf: int) -> None:
    for seed in range(6):
        scene = sample_scene(seed, FIRST_WORLD)
        frames = render_frames(scene, frame_times(scene))
        coded = through_codec(frames, crf)
        assert coded.shape == frames.shape
        assert coded.dtype == np.uint8
        assert not np.array_equal(coded, frames)
        errors = np.abs(coded[:, None].astype(int) - frames[None]).mean(axis=(2, 3, 4))
        assert errors.diagonal().max() < 6
        assert (errors.diagonal() <= errors.min(axis=1) + 0.3).all()


def test_worse_quality_means_more_error() -> None:
    scene = sample_scene(1, FIRST_WORLD)
    frames = render_frames(scene, frame_times(scene))
    fine, coarse = (
        np.abs(through_codec(frames, crf).astype(int) - frames).mean() for crf in (10, 45)
    )
    assert coarse > fine + 1


def test_one_frame_survives_the_codec() -> None:
    scene = sample_scene(2, FIRST_WORLD)
    assert len(through_codec(render_frames(scene, np.zeros(1)), 23)) == 1


def test_an_mp4_is_what_players_expect(tmp_path: Path) -> None:
    scene, path = sample_scene(5, FIRST_WORLD), tmp_path / "clip.mp4"
    write_mp4(scene, path)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        assert (context.name, context.pix_fmt) == ("h264", "yuv420p")
        assert (context.width, context.height) == scene.size
        assert stream.average_rate == 8
        assert stream.sample_aspect_ratio in (None, 1)
        times = [frame.time for frame in container.decode(stream)]
    assert times == [k / 8 for k in range(round(scene.duration_s * 8))]
    content = path.read_bytes()
    assert content.index(b"moov") < content.index(b"mdat")


def test_an_mp4_shows_the_scene(tmp_path: Path) -> None:
    scene, path = sample_scene(8, FIRST_WORLD), tmp_path / "clip.mp4"
    write_mp4(scene, path, fps=4, crf=18)
    rendered = render_frames(scene, frame_times(scene, 4))
    frames = decoded(path)
    assert frames.shape == rendered.shape
    assert np.abs(frames.astype(int) - rendered).mean(axis=(1, 2, 3)).max() < 4


def test_a_dataset_holds_clips_and_their_truth(tmp_path: Path) -> None:
    paths = write_dataset(tmp_path / "new" / "clips", 3, seed=40)
    assert [path.name for path in paths] == [f"clip_{k:05d}.mp4" for k in range(3)]
    lines = (tmp_path / "new" / "clips" / "truth.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["seed"] for record in records] == [40, 41, 42]
    for path, record in zip(paths, records, strict=True):
        assert record["file"] == path.name
        assert list(decoded(path).shape[2:0:-1]) == record["truth"]["size"]
        assert score_caption(record["truth"], record["caption"]).accuracy == 1.0


def test_the_codec_gives_the_same_frames_each_time() -> None:
    for seed in range(3):
        scene = sample_scene(seed, FIRST_WORLD)
        frames = render_frames(scene, frame_times(scene, 8))
        assert len({through_codec(frames, 23).tobytes() for _ in range(10)}) == 1


def test_a_dataset_is_the_same_each_time(tmp_path: Path) -> None:
    first = write_dataset(tmp_path / "a", 2, seed=7)
    second = write_dataset(tmp_path / "b", 2, seed=7)
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
    assert (tmp_path / "a/truth.jsonl").read_text() == (tmp_path / "b/truth.jsonl").read_text()


@pytest.mark.parametrize(("count", "seed"), [(1, -1), (1, LAST_SEED + 1), (2, LAST_SEED), (-1, 0)])
def test_seeds_of_training_are_out_of_reach(tmp_path: Path, count: int, seed: int) -> None:
    with pytest.raises(ValueError, match="seed"):
        write_dataset(tmp_path / "none", count, seed)
    assert not (tmp_path / "none").exists()
