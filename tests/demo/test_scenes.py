from __future__ import annotations

import json
from itertools import combinations, pairwise

import numpy as np
import pytest

from vidcap.demo.scenes import (
    FIRST_WORLD,
    LABEL_CLASSES,
    LABEL_NAMES,
    Background,
    Scene,
    SceneObject,
    World,
    frame_times,
    render_frames,
    sample_scene,
    token_labels,
    truth,
)
from vidcap.demo.shapes import SILHOUETTES
from vidcap.demo.world import CLASHES, MOTIONS, SHAPES, SIZES

SEEDS = range(150)


def first_scene(seed: int) -> Scene:
    """A scene of the first world."""
    return sample_scene(seed, FIRST_WORLD)


def one_object(**changes: object) -> Scene:
    """A white square in the middle of a black frame, standing still unless told otherwise."""
    facts: dict[str, object] = {
        "colour": "white",
        "shape": "square",
        "size": "small",
        "motion": "still",
        "place": "middle",
        "across_px": 30.0,
        "start_px": (56.0, 56.0),
        "velocity_px_s": (0.0, 0.0),
        "rgb": (255, 255, 255),
    }
    thing = SceneObject(**{**facts, **changes})  # type: ignore[arg-type]
    return Scene(0, (112, 112), 3.0, Background("plain", ("black",), None, ((0, 0, 0),)), (thing,))


def test_a_seed_always_gives_the_same_scene() -> None:
    for seed in (0, 7, 2**31 - 1, 2**40 + 5):
        assert first_scene(seed) == first_scene(seed)
    assert len({repr(first_scene(seed)) for seed in SEEDS}) == len(SEEDS)


def test_objects_stay_inside_the_frame() -> None:
    for scene in map(first_scene, SEEDS):
        for thing in scene.objects:
            ends = thing.centres(np.asarray([0.0, scene.duration_s]))
            half = thing.across_px / 2
            assert (ends >= half).all()
            assert (ends <= np.asarray(scene.size) - half).all()


def test_objects_hardly_overlap_and_differ_in_colour() -> None:
    for scene in map(first_scene, SEEDS):
        times = np.linspace(0, scene.duration_s, 21)
        for a, b in combinations(scene.objects, 2):
            gaps = np.hypot(*(a.centres(times) - b.centres(times)).T)
            assert gaps.min() >= (a.across_px + b.across_px) / 2 - 3.01
            assert a.colour != b.colour


def test_objects_stand_out_from_the_background() -> None:
    for scene in map(first_scene, SEEDS):
        for name in scene.background.colours:
            assert not CLASHES[name] & {thing.colour for thing in scene.objects}


def test_objects_are_named_from_left_to_right() -> None:
    for scene in map(first_scene, SEEDS):
        starts = [thing.start_px[0] for thing in scene.objects]
        assert all(b - a >= FIRST_WORLD.min_step_px for a, b in pairwise(starts))


def test_facts_agree_with_paths() -> None:
    for scene in map(first_scene, SEEDS):
        for thing in scene.objects:
            travel = np.asarray(thing.velocity_px_s) * scene.duration_s
            distance = np.hypot(*travel)
            assert distance == 0 if thing.motion == "still" else distance >= 31.99
            assert np.allclose(travel, distance * np.asarray(MOTIONS[thing.motion]))
            assert (thing.place is not None) == (thing.motion == "still")
            low, high = SIZES[thing.size or ""]
            assert low <= thing.across_px <= high


def test_place_says_where_an_object_rests() -> None:
    seen = set()
    for scene in map(first_scene, range(400)):
        for thing in scene.objects:
            if thing.place is None:
                continue
            aside = np.asarray(thing.start_px) - np.asarray(scene.size) / 2
            row = {-1: "upper", 1: "lower"}[int(np.sign(aside[1]) or 1)]
            column = {-1: "left", 1: "right"}[int(np.sign(aside[0]) or 1)]
            middle = bool((np.abs(aside) <= 4).all())
            assert thing.place == ("middle" if middle else f"{row} {column}")
            seen.add(thing.place)
    assert len(seen) == 5


def test_everything_in_the_world_occurs() -> None:
    scenes = [first_scene(seed) for seed in range(400)]
    things = [thing for scene in scenes for thing in scene.objects]
    names = {**LABEL_NAMES, "motion": FIRST_WORLD.motions}
    for key in names:
        assert {getattr(thing, key) for thing in things} == set(names[key])
    assert {len(scene.objects) for scene in scenes} == {1, 2}
    assert {scene.size for scene in scenes} == {(112, 112), (140, 112), (112, 140)}
    assert {scene.background.axis for scene in scenes} == {None, "vertical", "horizontal"}
    assert {len(frame_times(scene)) for scene in scenes} == {6, 7, 8, 9, 10}


def test_a_world_can_be_narrowed_and_widened() -> None:
    world = World(counts=(0, 0, 1), sizes=("small",), shapes=("star",), motions=("up", "down"))
    scenes = [sample_scene(seed, world) for seed in range(30)]
    assert {len(scene.objects) for scene in scenes} == {3}
    assert {thing.shape for scene in scenes for thing in scene.objects} == {"star"}


def test_a_world_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="fits"):
        sample_scene(0, World(frame_sizes=((28, 28, 1.0),), sizes=("large",)))


def test_truth_survives_json() -> None:
    for scene in map(first_scene, range(30)):
        account = truth(scene)
        assert json.loads(json.dumps(account)) == account
        assert [thing["shape"] for thing in account["objects"]] == [t.shape for t in scene.objects]
        assert (account["relation"] is None) == (len(scene.objects) == 1)


def test_frames_have_the_size_of_the_scene_and_its_colours() -> None:
    for scene in map(first_scene, range(40)):
        times = frame_times(scene)
        frames = render_frames(scene, times)
        width, height = scene.size
        assert frames.shape == (len(times), height, width, 3)
        assert frames.dtype == np.uint8
        for thing in scene.objects:
            if thing.shape == "ring":
                continue
            for frame, (x, y) in zip(frames, thing.centres(times), strict=True):
                assert tuple(frame[int(y), int(x)]) == thing.rgb


def test_a_square_covers_its_area_with_soft_edges_at_any_offset() -> None:
    sums = []
    for x in (56.0, 56.25, 56.5, 56.8):
        frame = render_frames(one_object(start_px=(x, 56.0)), np.zeros(1))[0, :, :, 0]
        sums.append(frame.sum() / 255)
        assert ((frame > 0) & (frame < 255)).any()
    assert np.allclose(sums, (0.88 * 30) ** 2, rtol=0.02)


def test_motion_moves_the_picture() -> None:
    scene = one_object(motion="right", place=None, start_px=(40.0, 56.0), velocity_px_s=(8.0, 0.0))
    frames = render_frames(scene, np.asarray([0.0, 1.0, 2.0]))
    assert np.array_equal(np.roll(frames[0], 8, axis=1), frames[1])
    assert np.array_equal(np.roll(frames[0], 16, axis=1), frames[2])


def test_an_object_may_be_cut_by_the_edge_of_the_frame() -> None:
    for corner in ((0.0, 0.0), (112.0, 112.0)):
        frame = render_frames(one_object(start_px=corner), np.zeros(1))[0, :, :, 0]
        assert frame.sum() / 255 == pytest.approx((0.88 * 15) ** 2, rel=0.03)


def test_gradients_run_from_the_first_colour_to_the_last() -> None:
    ends = ((10, 20, 30), (200, 100, 50))
    for axis, last in (("vertical", (-1, 0)), ("horizontal", (0, -1))):
        background = Background("gradient", ("black", "beige"), axis, ends)
        frame = render_frames(Scene(0, (140, 112), 3.0, background, ()), np.zeros(1))[0]
        assert tuple(frame[0, 0]) == ends[0]
        assert tuple(frame[last]) == ends[1]


def test_silhouettes_differ_clearly() -> None:
    steps = np.linspace(-1.1, 1.1, 80, dtype=np.float32)
    x, y = np.meshgrid(steps, steps)
    masks = {name: SILHOUETTES[name](x, y) < 0 for name in SHAPES}
    for name, mask in masks.items():
        assert mask[(np.abs(x) > 1.01) | (np.abs(y) > 1.01)].sum() == 0, name
        assert np.ptp(x[mask]) > 1.3, name
        assert np.ptp(y[mask]) > 1.6, name
    for (_, a), (_, b) in combinations(masks.items(), 2):
        assert (a & b).sum() / (a | b).sum() < 0.85


def test_labels_have_one_cell_per_merged_token() -> None:
    for scene in map(first_scene, range(30)):
        times = frame_times(scene)
        labels = token_labels(scene, times)
        width, height = scene.size
        assert labels.keys() == LABEL_CLASSES.keys()
        for key, classes in labels.items():
            assert classes.shape == ((len(times) + 1) // 2, height // 28, width // 28)
            assert classes.dtype == np.int16
            assert classes.min() >= 0
            assert classes.max() < LABEL_CLASSES[key]


def test_labels_name_the_object_in_the_cell() -> None:
    scene = one_object(start_px=(42.0, 70.0), across_px=30.0)
    labels = token_labels(scene, np.asarray([0.0, 0.5]))
    expected = np.zeros((1, 4, 4), np.int16)
    expected[0, 2, 1] = 1 + LABEL_NAMES["shape"].index("square")
    assert np.array_equal(labels["shape"], expected)
    assert labels["colour"][0, 2, 1] == 1 + LABEL_NAMES["colour"].index("white")
    assert labels["motion"][0, 2, 1] == 1 + LABEL_NAMES["motion"].index("still")
    assert labels["size"][0, 2, 1] == 1 + LABEL_NAMES["size"].index("small")


def test_labels_go_to_the_object_that_is_seen_most() -> None:
    below = one_object(start_px=(42.0, 42.0)).objects[0]
    above = one_object(start_px=(44.0, 42.0), colour="red", across_px=26.0).objects[0]
    scene = Scene(0, (112, 112), 3.0, one_object().background, (below, above))
    label = token_labels(scene, np.zeros(2))["colour"][0, 1, 1]
    assert label == 1 + LABEL_NAMES["colour"].index("red")


def test_labels_average_over_the_frames_of_a_cell() -> None:
    leaving = one_object(motion="right", start_px=(14.0, 14.0), velocity_px_s=(84.0, 0.0))
    labels = token_labels(leaving, np.asarray([0.0, 1.0, 1.0]))["shape"]
    assert labels.shape[0] == 2
    assert np.flatnonzero(labels[0, 0]).tolist() == [0, 3]
    assert np.flatnonzero(labels[1, 0]).tolist() == [3]


def test_labels_need_whole_cells() -> None:
    with pytest.raises(ValueError, match="cells"):
        token_labels(one_object(), np.zeros(2), cell_px=30)
