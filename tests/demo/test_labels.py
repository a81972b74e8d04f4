from __future__ import annotations

import numpy as np
import pytest

from vidcap.demo.labels import CELL_CLASSES, LABEL_CLASSES, LABEL_NAMES, cell_labels, token_labels
from vidcap.demo.objects import Background, Scene, SceneObject, Swing
from vidcap.demo.scenes import RICH_WORLD, frame_times, sample_scene

TIMES = np.arange(8) / 2


def scene_of(**changes: object) -> Scene:
    """A white square in the middle of a black frame of 4 s."""
    facts: dict[str, object] = {
        "colour": "white",
        "shape": "square",
        "size": "small",
        "motion": "still",
        "place": None,
        "across_px": 30.0,
        "start_px": (70.0, 70.0),
        "velocity_px_s": (0.0, 0.0),
        "rgb": (255, 255, 255),
    }
    thing = SceneObject(**{**facts, **changes})  # type: ignore[arg-type]
    return Scene(0, (140, 140), 4.0, Background("plain", ("black",), None, ((0, 0, 0),)), (thing,))


def names(scene: Scene, key: str, row: int = 2, column: int = 2) -> list[str | None]:
    """What the layers of one cell are labelled with."""
    classes = token_labels(scene, TIMES)[key][:, row, column]
    return [LABEL_NAMES[key][k - 1] if k else None for k in classes.tolist()]


def test_motions_of_the_first_world_keep_their_numbers() -> None:
    assert LABEL_NAMES["motion"][:5] == ("still", "left", "right", "up", "down")
    assert LABEL_CLASSES == {"colour": 11, "shape": 9, "motion": 12, "size": 3}


def test_an_object_is_labelled_while_it_is_there() -> None:
    assert names(scene_of(appears_s=2.1), "shape") == [None, None, "square", "square"]
    assert names(scene_of(disappears_s=1.0), "shape") == ["square", None, None, None]


def test_the_colour_is_that_of_the_time() -> None:
    scene = scene_of(becomes="red", becomes_rgb=(222, 36, 36), changes_s=2.2)
    assert names(scene, "colour") == ["white", "white", "red", "red"]


def test_the_motion_is_that_of_the_time() -> None:
    scene = scene_of(motion="up left", velocity_px_s=(-4.0, -4.0), moves_s=(1.0, 3.0))
    assert names(scene, "motion") == ["still", "up left", "up left", "still"]


def test_a_bouncing_object_moves_one_way_and_then_the_other() -> None:
    scene = scene_of(motion="bouncing", swing=Swing((0.0, 12.0), 4.0, 0.5, 0))
    assert names(scene, "motion") == ["up", "up", "down", "down"]


def test_a_circling_object_moves_in_all_directions() -> None:
    clockwise = scene_of(motion="circling", swing=Swing((12.0, 12.0), 4.0, 1 / 16, 1))
    assert names(clockwise, "motion") == ["down left", "up left", "up right", "down right"]
    other = scene_of(motion="circling", swing=Swing((12.0, 12.0), 4.0, 1 / 16, -1))
    assert names(other, "motion") == ["up left", "down left", "down right", "up right"]


def test_size_follows_the_extent_of_the_time() -> None:
    scene = scene_of(motion="growing", size=None, growth_px_s=6.0, moves_s=(0.0, 3.0))
    assert names(scene, "size") == ["small", "small", "large", "large"]
    assert names(scene, "motion") == ["growing", "growing", "growing", "still"]
    scene = scene_of(motion="shrinking", size=None, across_px=50.0, growth_px_s=-5.0)
    assert names(scene, "motion") == ["shrinking"] * 4
    assert names(scene, "size") == ["large", "large", "small", "small"]


def test_cells_know_their_third_of_the_frame_and_their_second() -> None:
    labels = cell_labels((40, 4, 6))
    assert labels.keys() == CELL_CLASSES.keys()
    rows, columns = [0, 1, 1, 2], [0, 0, 1, 1, 2, 2]
    expected = [[3 * row + column for column in columns] for row in rows]
    assert labels["place"].dtype == labels["second"].dtype == np.int16
    assert (labels["place"] == expected).all()
    assert labels["second"][:, 3, 5].tolist() == [*range(32), *[31] * 8]
    assert (labels["second"] == labels["second"][:, :1, :1]).all()


@pytest.mark.parametrize("n", [3, 4, 5, 7, 8, 16])
def test_thirds_are_those_of_the_middle_of_the_cell(n: int) -> None:
    expected = np.floor((np.arange(n) + 0.5) / n * 3 + 1e-9)
    assert (cell_labels((1, n, 1))["place"][0, :, 0] // 3 == expected).all()


def test_every_object_of_a_rich_scene_has_a_label_in_every_second_of_its_life() -> None:
    for seed in range(40):
        scene = sample_scene(seed, RICH_WORLD)
        colours = token_labels(scene, frame_times(scene))["colour"]
        for thing in scene.objects:
            first, last = thing.life(scene.duration_s)
            for second in range(int(np.ceil(first)), int(last)):
                then = (
                    thing.becomes if thing.changed(np.asarray([second + 0.5]))[0] else thing.colour
                )
                assert LABEL_NAMES["colour"].index(then or "") + 1 in colours[second]


def test_labels_are_the_same_however_many_frames_come_before() -> None:
    scene = sample_scene(3, RICH_WORLD)
    times = frame_times(scene)
    whole, rest = token_labels(scene, times), token_labels(scene, times[4:])
    assert all(np.array_equal(whole[key][2:], rest[key]) for key in whole)
