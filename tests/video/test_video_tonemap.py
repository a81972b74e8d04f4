"""Light levels by the figures of the standards."""

from __future__ import annotations

import numpy as np
import pytest

from vidcap.video.tonemap import compressed, pq_code, pq_light, tone_map


def grey(code: float, transfer: int) -> int:
    pixel = np.full((1, 1, 3), round(code * 65535), np.uint16)
    shown = tone_map(pixel, transfer, primaries=9)
    assert shown.dtype == np.uint8
    assert np.ptp(shown) <= 1
    return int(shown[0, 0, 0])


def test_pq_is_the_curve_of_st_2084() -> None:
    # ITU-R BT.2408, table 1: PQ values of diffuse white, of 1,000 and of 100 cd/m2.
    assert pq_light([0, 0.58, 0.75, 1]) == pytest.approx([0, 203, 1000, 10000], rel=0.03)
    assert pq_code(100) == pytest.approx(0.508, abs=0.001)
    codes = np.linspace(0, 1, 50)
    assert pq_code(pq_light(codes)) == pytest.approx(codes, abs=1e-6)


def test_dark_light_is_kept_and_bright_light_compressed() -> None:
    assert compressed([0.1, 1, 20, 80]) == pytest.approx([0.1, 1, 20, 80], rel=1e-6)
    levels = compressed(np.linspace(0, 1000, 200))
    assert np.all(np.diff(levels) > 0)
    assert compressed([1000, 4000, 10000]) == pytest.approx([203, 203, 203], rel=1e-3)


@pytest.mark.parametrize("transfer", [16, 18])
def test_greys_stay_grey_and_in_order(transfer: int) -> None:
    shown = [grey(code, transfer) for code in np.linspace(0, 1, 33)]
    assert (shown[0], shown[-1]) == (0, 255)
    assert shown == sorted(shown)
    assert len(set(shown)) > 20


def test_the_same_light_in_pq_and_hlg_looks_the_same() -> None:
    # BT.2408: 75 % HLG and 58 % PQ are both diffuse white, 203 cd/m2.
    assert abs(grey(0.5807, 16) - grey(0.75, 18)) <= 2


def test_primaries_that_are_not_wide_are_left_alone() -> None:
    pixel = np.array([[[30000, 10000, 5000]]], np.uint16)
    wide, plain = tone_map(pixel, 16, 9)[0, 0], tone_map(pixel, 16, 1)[0, 0]
    assert wide[0] > plain[0]
    assert wide[2] < plain[2]
