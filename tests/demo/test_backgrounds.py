from __future__ import annotations

import numpy as np
import pytest

from vidcap.demo.backgrounds import draw_background, sample_background
from vidcap.demo.objects import Background
from vidcap.demo.world import BACKGROUND_COLOURS, BACKGROUND_KINDS, World

DARK, LIGHT = (10, 20, 30), (200, 150, 100)


def test_a_checker_has_squares_of_its_two_colours() -> None:
    plane = draw_background(
        Background("checker", ("black", "beige"), None, (DARK, LIGHT), 20, 5), 140, 112
    )
    assert plane.shape == (112, 140, 3)
    light = (plane == LIGHT).all(axis=2)
    assert ((plane == DARK).all(axis=2) ^ light).all()
    assert np.array_equal(light[20:], ~light[:-20])
    assert np.array_equal(light[:, 20:], ~light[:, :-20])
    assert np.diff(light[0].astype(int)).any()


def test_grains_are_blocks_of_a_colour_made_lighter_or_darker() -> None:
    plane = draw_background(
        Background("noise", ("gray",), None, ((126, 120, 110),), 6, 9), 140, 112
    )
    depth = plane - np.asarray((126, 120, 110))
    assert np.ptp(depth, axis=2).max() == 0
    assert np.abs(depth).max() <= 18
    assert depth.std() > 8
    blocks = depth[:108, :138, 0].reshape(18, 6, 23, 6)
    assert np.ptp(blocks, axis=(1, 3)).max() == 0


def test_grains_stay_between_black_and_white() -> None:
    plane = draw_background(Background("noise", ("black",), None, ((4, 4, 4),), 4, 1), 56, 56)
    assert plane.min() == 0


def test_a_pattern_depends_on_its_seed_alone() -> None:
    draws = [
        draw_background(Background("noise", ("gray",), None, (LIGHT,), 4, grain), 56, 56)
        for grain in (1, 1, 2)
    ]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


@pytest.mark.parametrize("kind", BACKGROUND_KINDS)
def test_sampled_backgrounds_have_what_their_kind_needs(kind: str) -> None:
    world = World(background_kinds=(kind,))
    for seed in range(20):
        background = sample_background(np.random.default_rng(seed), world)
        assert background.kind == kind
        assert (
            len(background.colours) == len(background.rgb) == 1 + (kind in ("gradient", "checker"))
        )
        assert len(set(background.colours)) == len(background.colours)
        assert set(background.colours) <= set(BACKGROUND_COLOURS)
        assert (background.axis is not None) == (kind == "gradient")
        low, high = {"checker": (14, 28), "noise": (4, 8)}.get(kind, (0, 0))
        assert low <= background.cell_px <= high
        plane = draw_background(background, 84, 56)
        assert plane.shape == (56, 84, 3)
        assert plane.min() >= 0
        assert plane.max() <= 255
