"""Which moments are sampled, and which frame stands for each."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.video.clips import Decoded
from vidcap.errors import InputError
from vidcap.settings import VideoSettings
from vidcap.video.sampling import NearestFrames, plan_sampling


def test_targets_are_exact() -> None:
    plan = plan_sampling(VideoSettings(fps=0.1, start_s=0.3), Fraction(61))
    assert plan.targets == tuple(Fraction(3, 10) + 10 * k for k in range(7))
    plan = plan_sampling(VideoSettings(fps=29.97, max_frames=10_000), Fraction(10))
    assert plan.targets[7] == Fraction(700, 2997)
    assert len(plan.targets) == 300


@pytest.mark.parametrize(
    ("fps", "duration", "count"), [(2, 10, 20), (2, "10.01", 21), (2, "0.2", 1), (2, 0, 1)]
)
def test_the_end_itself_is_not_sampled(fps: float, duration: float | str, count: int) -> None:
    plan = plan_sampling(VideoSettings(fps=fps), Fraction(duration))
    assert len(plan.targets) == count
    assert plan.targets[0] == 0


def test_cap_spreads_the_targets_evenly() -> None:
    plan = plan_sampling(VideoSettings(fps=2, max_frames=8, start_s=4), Fraction(100))
    assert plan.targets == tuple(4 + 12 * k for k in range(8))
    at_the_cap = plan_sampling(VideoSettings(fps=2, max_frames=8), Fraction(4))
    assert at_the_cap.targets == tuple(Fraction(k, 2) for k in range(8))


def test_range() -> None:
    plan = plan_sampling(VideoSettings(fps=2, start_s=1.25, end_s=3), Fraction(10))
    assert plan.targets == tuple(Fraction(5, 4) + Fraction(k, 2) for k in range(4))
    assert (plan.start, plan.end, plan.warnings) == (Fraction(5, 4), 3, ())


def test_end_behind_the_video_is_cut_with_a_warning() -> None:
    plan = plan_sampling(VideoSettings(end_s=60), Fraction(10))
    assert plan.end == 10
    assert plan.warnings == ("--end 60 s is past the end of the video (10.0 s)",)
    assert plan_sampling(VideoSettings(end_s=10), Fraction("9.98")).warnings == ()


@pytest.mark.parametrize("start", [10, 10.5, 1e9])
def test_start_behind_the_video_is_an_input_error(start: float) -> None:
    with pytest.raises(InputError, match=r"is past the end of the video \(10\.0 s\)"):
        plan_sampling(VideoSettings(start_s=start), Fraction(10))


def test_unknown_duration_counts_as_one_frame() -> None:
    assert plan_sampling(VideoSettings(), None).targets == (0,)
    with pytest.raises(InputError):
        plan_sampling(VideoSettings(start_s=1), None)


tenths = st.integers(0, 300).map(lambda n: Fraction(n, 10))


@given(
    times=st.lists(tenths, min_size=1, max_size=40, unique=True).map(sorted),
    targets=st.lists(tenths, min_size=1, max_size=40, unique=True).map(sorted),
)
def test_picks_equal_a_search_through_all_frames(
    times: list[Fraction], targets: list[Fraction]
) -> None:
    nearest: NearestFrames[int] = NearestFrames(targets)
    picked = [hit for index, time in enumerate(times) for hit in nearest.feed(time, index)]
    picked += nearest.finish(max(targets))
    expected = Decoded(times, []).nearest(targets)
    assert picked == [(times[index], index) for index in expected]
    assert nearest.next_target is None


def test_last_frame_stands_for_targets_only_while_it_is_shown() -> None:
    nearest: NearestFrames[str] = NearestFrames([Fraction(0), Fraction(5), Fraction(9)])
    assert nearest.feed(Fraction(0), "a") == [(0, "a")]
    assert nearest.feed(Fraction(4), "b") == []
    assert nearest.finish(Fraction(5)) == [(4, "b")]
    assert nearest.next_target == 9
    assert nearest.finish(Fraction(10)) == []
