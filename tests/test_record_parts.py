"""Where a record's figures come from."""

from __future__ import annotations

import pytest

from vidcap import record_parts
from vidcap.engine.policy import Policy
from vidcap.engine.stats import Stats
from vidcap.record_parts import Stopwatch, speculation_part
from vidcap.settings import method_settings


def test_a_stopwatch_counts_from_the_start_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([10.0, 12.0, 15.0, 20.0])
    monkeypatch.setattr(record_parts.time, "perf_counter", lambda: next(readings))
    clock = Stopwatch(begin=8.0, decode_video_s=1.0)
    with clock.preprocessing():
        pass
    clock.note_token()
    clock.note_token()
    stats = Stats(generated=9)
    stats.seconds.update(decode=4.0, draft=1.0, verify=2.5)
    timing = clock.timing(stats, load_s=3.0)
    assert (timing.decode_video_s, timing.preprocess_s, timing.load_s) == (1.0, 2.0, 3.0)
    assert (timing.ttft_s, timing.total_s) == (7.0, 12.0)
    assert (timing.other_s, timing.tokens_per_s) == (0.5, 2.0)
    assert timing.vision_s == 0


def test_an_answer_without_tokens_has_no_time_to_the_first() -> None:
    timing = Stopwatch(begin=0.0).timing(Stats(), None)
    assert timing.ttft_s is timing.tokens_per_s is timing.load_s is None


def test_the_histogram_has_a_place_for_every_count() -> None:
    stats = Stats()
    for accepted in (3, 0, 3):
        stats.count_round(drafted=4, accepted=accepted)
    part = speculation_part(method_settings("sd"), stats, None)
    assert part.acceptance_histogram == (1, 0, 0, 2)
    assert (part.num_spec_steps, part.num_accepted_draft_tokens) == (3, 6)
    assert part.arm_rounds is None


def test_only_auto_says_that_drafting_does_not_pay() -> None:
    policy = Policy()
    policy.costs.plain_s = 1.0
    for _ in range(8):
        policy.observe(1, 100.0, [])
    for method, expected in (("auto", policy.verdict), ("sd", None)):
        part = speculation_part(method_settings(method), Stats(), policy)
        assert part.fallback == expected
    assert policy.verdict is not None
    plain = speculation_part(method_settings("plain"), Stats(), None)
    assert (plain.verify, plain.acceptance_histogram) == (None, ())
