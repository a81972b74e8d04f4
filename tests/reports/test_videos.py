"""What people reported about tools like this one, for the frames that a model gets to see."""

from __future__ import annotations

import pytest

from tests.video.clips import ClipMaker, same_size
from vidcap.settings import VideoSettings
from vidcap.video import load_frames


@pytest.fixture
def clip(tmp_path):
    return ClipMaker(tmp_path)("clip.mp4", frames=20, fps=10)


def test_asking_for_more_frames_than_exist_is_no_error(clip):
    frames = load_frames(clip, VideoSettings(fps=500, max_frames=10_000), same_size)
    assert len(frames.times_s) == 20
    assert frames.warnings == ()


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        (VideoSettings(fps=1), 2),
        (VideoSettings(fps=5), 10),
        (VideoSettings(fps=5, max_frames=3), 3),
        (VideoSettings(fps=5, start_s=1), 5),
        (VideoSettings(fps=5, end_s=0.6), 3),
    ],
)
def test_flags_for_rate_range_and_number_of_frames_are_obeyed(clip, settings, count):
    assert len(load_frames(clip, settings, same_size).times_s) == count


def test_no_flag_is_silently_ignored(cli, clip):
    """One that can make no difference is refused or spoken of."""
    for words, code in (
        (["--overwrite"], 2),
        (["--method", "plain", "--draft-tokens", "3"], 2),
        (["--no-draft", "--draft", "d"], 2),
        (["--format", "srt", "--out-file", "x.jsonl"], 2),
        (["--prefetch", "2", str(clip)], 0),
    ):
        result = cli("describe", str(clip), *words)
        assert result.exit_code == code
        assert result.stderr.replace("vidcap: notice: the fake pair sees nothing\n", "")
