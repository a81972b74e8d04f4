from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest

from vidcap.demo.scenes import (
    LONG_WORLD,
    RICH_WORLD,
    Scene,
    World,
    frame_times,
    render_frames,
    sample_scene,
    truth,
)
from vidcap.demo.world import (
    ALL_MOTIONS,
    BACKGROUND_KINDS,
    CLASHES,
    DIRECTIONS,
    EVENT_KINDS,
    PLACED_MOTIONS,
    SHAPES,
)


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    short = [sample_scene(seed, RICH_WORLD) for seed in range(150)]
    return short + [sample_scene(seed, LONG_WORLD) for seed in range(30)]


def test_a_seed_always_gives_the_same_scene(scenes: list[Scene]) -> None:
    for seed in (0, 7, 149):
        assert sample_scene(seed, RICH_WORLD) == scenes[seed]


def test_everything_in_the_world_occurs(scenes: list[Scene]) -> None:
    things = [thing for scene in scenes for thing in scene.objects]
    assert {thing.motion for thing in things} == set(ALL_MOTIONS)
    assert {thing.shape for thing in things} == set(SHAPES)
    assert {thing.size for thing in things} == {"small", "large", None}
    assert {scene.background.kind for scene in scenes} == set(BACKGROUND_KINDS)
    counts = Counter(len(scene.objects) for scene in scenes)
    assert set(counts) == {1, 2, 3, 4}
    assert min(counts.values()) > 0.08 * len(scenes)
    events = [truth(scene)["events"] for scene in scenes]
    assert {event["kind"] for each in events for event in each} == set(EVENT_KINDS)
    assert {len(each) for each in events} >= {0, 1, 2, 3}


def test_objects_stay_inside_the_frame_all_their_life(scenes: list[Scene]) -> None:
    for scene in scenes:
        times = np.linspace(0, scene.duration_s, 101)
        for thing in scene.objects:
            half = thing.extents(times)[:, None] / 2
            assert (thing.centres(times) >= half + 1.99).all()
            assert (thing.centres(times) <= np.asarray(scene.size) - half - 1.99).all()
            assert (half >= 14.49).all()
            assert (half <= 28.01).all()


def test_objects_hardly_overlap_while_both_are_there(scenes: list[Scene]) -> None:
    met = 0
    for scene in scenes:
        times = np.linspace(0, scene.duration_s, 197)
        for a, b in combinations(scene.objects, 2):
            both = a.there(times) & b.there(times)
            gaps = np.hypot(*(a.centres(times) - b.centres(times)).T)
            gaps -= (a.extents(times) + b.extents(times)) / 2
            assert (gaps[both] >= -6).all()
            met += bool(both.any())
    assert met > 150


def test_colours_are_told_apart_before_and_after_a_change(scenes: list[Scene]) -> None:
    for scene in scenes:
        colours = [thing.colour for thing in scene.objects]
        colours += [thing.becomes for thing in scene.objects if thing.becomes is not None]
        assert len(set(colours)) == len(colours)
        for name in scene.background.colours:
            assert not CLASHES[name] & set(colours)


def test_objects_come_in_the_order_in_which_they_are_seen(scenes: list[Scene]) -> None:
    for scene in scenes:
        for a, b in pairwise(truth(scene)["objects"]):
            first, second = a["appears_s"] or 0.0, b["appears_s"] or 0.0
            assert first <= second
            if first == second:
                assert b["start_px"][0] - a["start_px"][0] >= RICH_WORLD.min_step_px - 0.11


def test_events_keep_apart_and_away_from_the_ends(scenes: list[Scene]) -> None:
    for scene in scenes:
        account = truth(scene)
        times = [event["time_s"] for event in account["events"]]
        assert all(b - a >= 1.5 for a, b in pairwise([0.0, *times, scene.duration_s]))
        assert all(0 <= time % 1 <= 0.25 for time in times)
        numbers = [event["object"] for event in account["events"]]
        assert len(set(numbers)) == len(numbers)
        keys = {"appears": "appears_s", "disappears": "disappears_s", "changes colour": "changes_s"}
        for event in account["events"]:
            thing = account["objects"][event["object"]]
            assert thing[keys[event["kind"]]] == event["time_s"]
            assert (thing["becomes"] is not None) == (event["kind"] == "changes colour")


def test_movers_are_as_fast_and_get_as_far_as_the_world_says(scenes: list[Scene]) -> None:
    for scene in scenes:
        for thing in scene.objects:
            ends = thing.centres(np.asarray(thing.life(scene.duration_s)))
            way = ends[1] - ends[0]
            if thing.motion in DIRECTIONS and thing.motion != "still":
                assert 7 <= np.hypot(*thing.velocity_px_s) <= 20
                assert np.hypot(*way) >= 31.99
                assert np.allclose(way, np.hypot(*way) * np.asarray(DIRECTIONS[thing.motion]))
            elif thing.swing is None:
                assert np.array_equal(ends[0], ends[1])


def test_circles_and_bounces_have_the_reach_and_period_of_the_world(scenes: list[Scene]) -> None:
    for thing in (thing for scene in scenes for thing in scene.objects):
        assert (thing.swing is not None) == (thing.motion in ("circling", "bouncing"))
        if thing.swing is None:
            continue
        turn = thing.centres(np.linspace(0, thing.swing.period_s, 400))
        width, height = np.ptp(turn, axis=0)
        if thing.motion == "circling":
            assert 24 <= width <= 48.01
            assert height == pytest.approx(width, abs=0.1)
            assert 3 <= thing.swing.period_s <= 5
        else:
            assert min(width, height) == 0
            assert 23.5 <= max(width, height) <= 60.01
            assert 2.5 <= thing.swing.period_s <= 4
        assert np.allclose(turn[0], turn[-1])


def test_growing_and_shrinking_can_be_seen(scenes: list[Scene]) -> None:
    for scene in scenes:
        for thing in scene.objects:
            first, last = thing.extents(np.asarray(thing.life(scene.duration_s)))
            sign = {"growing": 1, "shrinking": -1}.get(thing.motion, 0)
            assert (thing.size is None) == bool(sign)
            if sign:
                assert sign * (last - first) >= 9.99
                assert 2.5 <= abs(thing.growth_px_s) <= 6
            else:
                assert last == first


def test_place_says_where_an_object_is(scenes: list[Scene]) -> None:
    for scene in scenes:
        for thing in scene.objects:
            assert (thing.place is not None) == (thing.motion in PLACED_MOTIONS)
            if thing.place is None:
                continue
            aside = np.asarray(thing.start_px) - np.asarray(scene.size) / 2
            if thing.place == "middle":
                assert (np.abs(aside) <= 0.041 * np.asarray(scene.size)).all()
            else:
                row, column = (
                    ("upper", "lower")[int(aside[1] > 0)],
                    ("left", "right")[int(aside[0] > 0)],
                )
                assert thing.place == f"{row} {column}"
                assert (np.abs(aside) >= 0.099 * np.asarray(scene.size)).all()


def test_accounts_survive_json(scenes: list[Scene]) -> None:
    for scene in scenes[:40]:
        account = truth(scene)
        assert json.loads(json.dumps(account)) == account


def test_accounts_say_where_others_were_when_one_appeared(scenes: list[Scene]) -> None:
    checked = 0
    for scene in scenes:
        account = truth(scene)
        arrivals = [e["time_s"] for e in account["events"] if e["kind"] == "appears"]
        for thing, facts in zip(scene.objects, account["objects"], strict=True):
            first, last = thing.life(scene.duration_s)
            assert [t for t, *_ in facts["seen_px"]] == [t for t in arrivals if first < t < last]
            for moment, *centre in facts["seen_px"]:
                assert np.allclose(centre, thing.centres(np.asarray([moment]))[0], atol=0.051)
                checked += 1
    assert checked > 20


def test_pictures_show_what_happens() -> None:
    world = replace(RICH_WORLD, background_kinds=("plain",), event_counts=(0.0, 1.0), counts=(1.0,))
    kinds = set()
    for seed in range(12):
        scene = sample_scene(seed, world)
        (event,) = truth(scene)["events"]
        times = np.asarray([0.0, event["time_s"] - 0.01, event["time_s"], scene.duration_s])
        shown = [(frame != frame[0, 0]).any(axis=2).any() for frame in render_frames(scene, times)]
        first, last = event["kind"] != "appears", event["kind"] != "disappears"
        assert shown == [first, first, last, last]
        thing = scene.objects[0]
        if thing.becomes_rgb is not None and thing.shape != "ring":
            frames = render_frames(scene, times[1:3])
            x, y = thing.centres(times[1:2])[0].astype(int)
            assert tuple(frames[0, y, x]) == thing.rgb
            assert tuple(frames[1, y, x]) == thing.becomes_rgb
        kinds.add(event["kind"])
    assert kinds == set(EVENT_KINDS)


@pytest.mark.parametrize(
    ("world", "least", "most"), [(RICH_WORLD, 64, 512), (LONG_WORLD, 500, 4200)]
)
def test_lengths_are_those_of_the_world(world: World, least: int, most: int) -> None:
    tokens, weights = [], []
    for width, height, duration_s, weight in world.combinations():
        assert width % 28 == height % 28 == 0
        tokens.append(duration_s * (width // 28) * (height // 28))
        weights.append(weight)
    assert least <= min(tokens)
    assert max(tokens) <= most
    assert max(tokens) > 0.8 * most
    assert np.average(np.asarray(tokens) <= 2000, weights=weights) > 0.8
    for seed in range(20):
        scene = sample_scene(seed, world)
        lengths = [(w, h, duration_s) for w, h, duration_s, _ in world.lengths]
        assert (*scene.size, scene.duration_s) in lengths
        assert len(frame_times(scene)) == 2 * scene.duration_s


def test_a_world_without_lengths_combines_sizes_and_durations() -> None:
    world = World(frame_sizes=((112, 112, 0.5), (140, 112, 0.25)), durations_s=(3.0, 4.0))
    assert world.combinations() == (
        (112, 112, 3.0, 0.5),
        (112, 112, 4.0, 0.5),
        (140, 112, 3.0, 0.25),
        (140, 112, 4.0, 0.25),
    )


def test_without_room_there_are_fewer_objects_and_then_fewer_events() -> None:
    tight = replace(
        RICH_WORLD,
        counts=(0.0, 0.0, 0.0, 1.0),
        event_counts=(0.0, 1.0),
        event_kinds=("changes colour",),
        motions=("still",),
        places=("middle",),
        lengths=((84, 84, 4.0, 1.0),),
    )
    account = truth(sample_scene(0, tight))
    assert len(account["objects"]) == 1
    assert len(account["events"]) == 1
    rushed = replace(
        tight,
        motions=("left",),
        min_travel_px=50.0,
        sizes=("small",),
        event_kinds=("appears",),
        lengths=((112, 112, 4.0, 1.0),),
    )
    account = truth(sample_scene(0, rushed))
    assert len(account["objects"]) == 1
    assert account["events"] == []


def test_a_clip_too_short_for_events_has_none() -> None:
    world = replace(RICH_WORLD, event_counts=(0.0, 0.0, 1.0), lengths=((168, 168, 3.0, 1.0),))
    assert all(truth(sample_scene(seed, world))["events"] == [] for seed in range(5))
