from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.fakes import fake_record
from vidcap.cli.console import Console
from vidcap.cli.profile import comparison, histogram_lines, print_profile
from vidcap.output.record import Record


@pytest.fixture
def printed(capsys):
    """What the profile of a record prints on stderr."""

    def show(record: Record) -> str:
        print_profile(record, Console(quiet=True))
        out, err = capsys.readouterr()
        assert out == ""
        return err

    return show


def test_every_stage_has_its_seconds_and_its_share_of_the_total(printed):
    lines = printed(fake_record("a")).splitlines()
    rows = {line[:16].strip(): line[16:].split() for line in lines}
    assert rows["decode video"] == ["0.050", "5", "%"]
    assert rows["preprocess"] == ["0.010", "1", "%"]
    assert rows["vision"] == ["0.100", "10", "%"]
    assert rows["target prefill"] == ["0.200", "20", "%"]
    assert rows["draft prefill"] == ["0.050", "5", "%"]
    assert rows["draft"] == ["0.100", "10", "%"]
    assert rows["verify"] == ["0.300", "30", "%"]
    assert rows["other"] == ["0.190", "19", "%"]
    assert rows["total"] == ["1.000"]
    assert rows["load models"] == ["1.500", "-"]


def test_the_figures_of_speculation_follow(printed):
    text = printed(fake_record("[bold]a.mp4", question="Why?"))
    assert "[bold]a.mp4  Why?" in text
    assert "tokens: 14 generated (stop), 120 in the prompt, 96 of them visual" in text
    assert "tokens per target call: 3.25   target calls: 4" in text
    assert "accepted drafts per round: 2.25   drafted tokens accepted: 9 %" in text
    assert "method: sd-tree   device: cpu   dtype: float32\nattention: vidcap_split\n" in text


def test_nothing_is_cut_off_or_wrapped_however_narrow_the_terminal(printed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    path = "a/very/long/path/" * 8 + "clip.mp4"
    assert printed(fake_record(path)).splitlines()[0] == path


def test_overlap_arms_and_time_outside_the_models_are_told(printed):
    record = fake_record("a")
    text = printed(
        replace(
            record,
            timing=replace(record.timing, decode_s=0.5, other_s=0.04, overlap_s=0.123),
            speculation=replace(record.speculation, arm_rounds={"text": 3, "full": 1}),
        )
    )
    assert "decoding: 0.500 s, 8 % of it outside the models\n" in text
    assert "rounds by arm: text 3, full 1\n" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["overlap", "0.123"] in rows
    assert "overlap" not in printed(record)
    assert "by arm" not in printed(record)


def test_a_shared_vision_tower_is_told(printed):
    record = fake_record("a")
    words = "vision tower: the target's, shared by the draft\n"
    shared = printed(replace(record, model=replace(record.model, shared_tower=True)))
    assert shared.endswith("attention: vidcap_split\n" + words)
    for told in (None, False):
        assert words not in printed(replace(record, model=replace(record.model, shared_tower=told)))


def test_a_record_that_knows_little_is_no_trouble(printed):
    text = printed(Record("a.mp4", "describe"))
    assert "tokens/s: -" in text
    assert "accepted" not in text


def test_the_histogram_has_a_line_per_length_and_bars_in_proportion():
    lines = histogram_lines((10, 0, 5, 1))
    assert [line.split()[:2] for line in lines] == [["0", "10"], ["1", "0"], ["2", "5"], ["3", "1"]]
    assert [line.count("#") for line in lines] == [30, 0, 15, 3]
    assert histogram_lines(()) == []
    assert histogram_lines((0, 0)) == []


def test_methods_stand_side_by_side():
    record = fake_record("a")
    assert record.timing
    slow = replace(record, timing=replace(record.timing, tokens_per_s=10.0, draft_s=None))
    lines = comparison([("sd-tree", record), ("plain", slow)])
    assert lines[0].split() == ["sd-tree", "plain"]
    assert lines[1].split() == ["tokens/s", "26.0", "10.0"]
    assert lines[3].split() == ["prefill", "0.250", "s", "0.250", "s"]
    assert lines[4].split() == ["draft", "0.100", "s", "-"]
    assert len({len(line) for line in lines}) == 1
