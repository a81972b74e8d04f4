"""Times of frames whose time stamps are missing, disordered or damaged."""

from __future__ import annotations

from fractions import Fraction

import av
import pytest

from vidcap.video.clock import Clock

TENTH = Fraction(1, 10)


def times(stamps: list[int | None], **options: Fraction) -> tuple[list[float], bool]:
    """The times of frames with these PTS in tenths of a second, and whether all was regular."""
    clock = Clock(TENTH, TENTH, **options)
    found = []
    for stamp in stamps:
        frame = av.VideoFrame(16, 16, "gray")
        frame.pts = stamp
        found.append(float(clock.time(frame)))
    return found, clock.regular


@pytest.mark.parametrize(
    ("stamps", "expected", "regular"),
    [
        ([50, 51, 53, 60], [0.0, 0.1, 0.3, 1.0], True),
        ([-7, -6, 0], [0.0, 0.1, 0.7], True),
        ([None, None, None], [0.0, 0.1, 0.2], False),
        ([None, 20, 21], [0.0, 0.1, 0.2], False),
        ([0, None, None, 3], [0.0, 0.1, 0.2, 0.3], False),
        # In decoding order: every frame waits until its time has come, and nothing drifts.
        ([0, 2, 3, 1, 4, 6, 5, 7], [0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], False),
        ([0, 0, 0, 1, 9], [0.0, 0.1, 0.2, 0.3, 0.9], False),
        # Two recordings joined: the second goes on where the first ended.
        ([100, 101, 102, 0, 1, 2], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5], False),
        ([100, 101, 0, 1, 900], [0.0, 0.1, 0.2, 0.3, 90.2], False),
    ],
)
def test_times(stamps: list[int | None], expected: list[float], regular: bool) -> None:
    assert times(stamps) == (pytest.approx(expected), regular)


def test_stamp_far_behind_the_claimed_end_is_not_believed() -> None:
    found, regular = times([0, 1, 10**15, 3, 4], end=Fraction(1))
    assert found == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert not regular


def test_end_of_a_frame_by_its_duration_or_the_frame_rate() -> None:
    clock, frame = Clock(TENTH, None), av.VideoFrame(16, 16, "gray")
    frame.pts, frame.duration = 30, 5
    assert clock.time(frame) == 0
    assert clock.end_of(frame) == Fraction(1, 2)
    frame.duration = 0
    assert clock.end_of(frame) == Fraction(1, 25)


def test_stamps_and_seconds_are_inverse() -> None:
    clock, frame = Clock(TENTH, TENTH), av.VideoFrame(16, 16, "gray")
    frame.pts = 37
    clock.time(frame)
    assert clock.seconds(57) == 2
    assert clock.stamp(Fraction(2)) == 57
    assert clock.stamp(Fraction("2.09")) == 57
