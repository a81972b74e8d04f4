from __future__ import annotations

from dataclasses import replace

import jsonschema
import pytest

from tests.cli.fakes import fake_record
from vidcap.batch.timed import join_windows
from vidcap.output.record import Record, record_schema

RANGES = [(0.0, 10.0), (10.0, 14.5)]


@pytest.fixture
def windows():
    first = fake_record("a.mp4", text="One.", warnings=("w",))
    second = replace(
        fake_record("a.mp4", text="Two.", finish_reason="length", warnings=("w", "v")),
        tokens=replace(first.tokens, generated=6, draft_visual=None),
        speculation=replace(
            first.speculation,
            num_spec_steps=2,
            num_draft_tokens=20,
            num_accepted_draft_tokens=3,
            mean_acceptance_length=2.5,
            acceptance_histogram=(0, 1, 1),
        ),
        timing=replace(first.timing, decode_s=0.25, tokens_per_s=20.0, ttft_s=9.0, load_s=1.5),
        video=replace(first.video, frames_used=2, frame_times_s=(10.0, 12.0), decoded_s=14.5),
    )
    return [first, second]


def test_texts_are_joined_and_counts_are_summed(windows):
    record = join_windows(windows, RANGES, ("later",))
    jsonschema.validate(record.to_dict(), record_schema())
    assert record.text == "One.\nTwo."
    assert [(s.start_s, s.end_s, s.text) for s in record.segments] == [
        (0.0, 10.0, "One."),
        (10.0, 14.5, "Two."),
    ]
    assert record.warnings == ("w", "v", "later")
    assert record.finish_reason == "length"
    assert (record.tokens.generated, record.tokens.prompt, record.tokens.draft_visual) == (
        *(20, 240, 96),
    )
    assert (record.video.frames_used, record.video.decoded_s) == (5, 14.5)
    assert record.video.frame_times_s == (0.0, 0.5, 1.0, 10.0, 12.0)


def test_overlaps_and_turns_of_arms_are_summed(windows):
    plain = join_windows(windows, RANGES)
    assert (plain.timing.overlap_s, plain.speculation.arm_rounds) == (None, None)
    arms = ({"text": 2, "full": 1}, {"text": 1, "lookup": 4})
    windows = [
        replace(
            window,
            timing=replace(window.timing, overlap_s=0.25),
            speculation=replace(window.speculation, arm_rounds=turns),
        )
        for window, turns in zip(windows, arms, strict=True)
    ]
    record = join_windows(windows, RANGES)
    jsonschema.validate(record.to_dict(), record_schema())
    assert record.timing.overlap_s == 0.5
    assert record.speculation.arm_rounds == {"text": 3, "full": 1, "lookup": 4}


def test_means_follow_from_the_sums(windows):
    record = join_windows(windows, RANGES)
    part, timing = record.speculation, record.timing
    assert (part.num_spec_steps, part.num_draft_tokens, part.num_accepted_draft_tokens) == (
        *(6, 120, 12),
    )
    assert part.acceptance_histogram == (1, 1, 3, 1)
    assert part.mean_acceptance_length == pytest.approx((4 * 3.25 + 2 * 2.5) / 6)
    assert part.mean_accepted_drafts == 2.0
    assert part.draft_acceptance_rate == 0.1
    assert (timing.load_s, timing.ttft_s, timing.decode_s, timing.total_s) == (1.5, 0.41, 0.75, 2.0)
    assert timing.tokens_per_s == pytest.approx((26 * 0.5 + 20 * 0.25) / 0.75)
    assert timing.vision_s == 0.2


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["stop", "stop"], "stop"),
        (["stop", "length"], "length"),
        (["length", "interrupted"], "interrupted"),
    ],
)
def test_the_weightiest_reason_to_end_counts(reasons, expected):
    windows = [fake_record("a", finish_reason=reason) for reason in reasons]
    assert join_windows(windows, RANGES).finish_reason == expected


def test_what_is_not_known_stays_unknown():
    bare = Record("a", "describe", text="x", finish_reason="stop")
    record = join_windows([bare, bare], RANGES)
    assert (record.tokens, record.timing, record.speculation, record.video) == (None,) * 4


def test_plain_decoding_has_no_means_to_invent(windows):
    plain = [
        replace(
            window,
            speculation=replace(
                window.speculation,
                num_spec_steps=0,
                num_draft_tokens=0,
                num_accepted_draft_tokens=0,
                mean_acceptance_length=None,
            ),
        )
        for window in windows
    ]
    part = join_windows(plain, RANGES).speculation
    assert (part.mean_acceptance_length, part.draft_acceptance_rate) == (None, None)
    assert part.mean_accepted_drafts is None
