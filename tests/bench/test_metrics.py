from __future__ import annotations

import pytest

from tests.bench.runs import make_run
from vidcap.bench.arms import Arm
from vidcap.bench.metrics import ArmFigures, Difference, figures, find_difference
from vidcap.bench.results import ArmRun
from vidcap.settings import METHODS

PLAIN, SD = Arm("plain", METHODS["plain"]), Arm("sd", METHODS["sd"])
TRANSFORMERS = Arm("transformers", None)


def speculative(**values: object) -> ArmRun:
    base = {"arm": "sd", "draft_visual_tokens": 100, "draft_s": 0.1, "verify_s": 0.3}
    return make_run(**base | values)


def by_name(arms: list[Arm], clips: list[dict[str, ArmRun]]) -> dict[str, ArmFigures]:
    return {item.name: item for item in figures(arms, clips)}


def test_counts_are_pooled_over_the_clips() -> None:
    one = speculative(rounds=2, drafted=10, accepted=2, tokens=(1,) * 5)
    two = speculative(rounds=8, drafted=30, accepted=2, tokens=(1,) * 11)
    found = by_name([SD], [{"sd": one}, {"sd": two}])["sd"]
    assert found.clips == 2
    assert found.mean_accepted_drafts == 4 / 10
    assert found.mean_acceptance_length == 14 / 10
    assert found.draft_acceptance_rate == 4 / 40


def test_facts_are_pooled_and_compared_with_plain() -> None:
    clips = [
        {
            "plain": make_run(facts={"colour": (2, 0, 0), "count": (1, 1, 0)}),
            "sd": speculative(facts={"colour": (1, 1, 0), "count": (0, 0, 2)}),
        },
        {
            "plain": make_run(facts={"colour": (5, 0, 1), "count": (0, 0, 0)}),
            "sd": speculative(facts={"colour": (3, 2, 1), "count": (0, 0, 0)}),
        },
    ]
    found = by_name([PLAIN, SD], clips)
    assert found["plain"].facts_accuracy == 8 / 10
    assert found["plain"].facts_relative == 1.0
    assert found["sd"].facts_accuracy == 4 / 10
    assert found["sd"].facts_relative == 0.5
    assert found["sd"].facts_by_kind == {"colour": 4 / 8, "count": 0.0}


def test_times_are_medians_of_each_clips_own_ratio() -> None:
    # Decoding takes 4 s, 1 s and 1 s of plain; sd is 8, 2 and 4 times as fast.
    clips = [
        {
            "plain": make_run(decode_s=seconds, total_s=seconds + 1),
            "sd": speculative(decode_s=seconds / factor, total_s=seconds / factor + 1),
        }
        for seconds, factor in ((4.0, 8), (1.0, 2), (1.0, 4))
    ]
    found = by_name([PLAIN, SD], clips)["sd"]
    assert found.decode_speedup_vs_plain == 4
    assert found.end_to_end_speedup_vs_plain == pytest.approx(2 / 1.25)
    assert found.tokens_per_s == 8  # of 4 tokens in 0.5, 0.5 and 0.25 s
    assert found.decode_speedup_vs_transformers is None


def test_the_decode_speedup_counts_tokens_and_not_texts() -> None:
    clips = [{"plain": make_run(), "sd": speculative(tokens=(5, 6, 7), decode_s=0.25)}]
    assert by_name([PLAIN, SD], clips)["sd"].decode_speedup_vs_plain == 2


def test_shares_lie_between_0_and_1() -> None:
    runs = [speculative(prefill_s=0.5, total_s=2.0, other_s=0.2, decode_s=1.0)]
    found = by_name([SD], [{"sd": run} for run in runs])["sd"]
    assert (found.prefill_share, found.other_share) == (0.25, 0.2)


def test_step_times_are_per_call() -> None:
    clips = [
        {
            "plain": make_run(verify_s=0.8, rounds=4),
            "sd": speculative(draft_s=0.1, draft_calls=10, verify_s=0.5, rounds=2),
            "transformers": make_run(arm="transformers", decode_s=2.0, rounds=4),
        }
    ]
    found = by_name([PLAIN, SD, TRANSFORMERS], clips)
    assert found["sd"].step_ms == pytest.approx({"target": 200, "draft": 10, "verify": 250})
    assert found["plain"].step_ms == {"target": 200.0, "draft": None, "verify": None}
    assert found["transformers"].step_ms == {"target": 500.0, "draft": None, "verify": None}


def test_of_what_transformers_drafts_no_single_call_is_known() -> None:
    assisted = Arm("transformers-assisted", None)
    run = make_run(arm=assisted.name, draft_visual_tokens=0)
    found = by_name([assisted], [{assisted.name: run}])[assisted.name]
    assert found.step_ms == {"target": None, "draft": None, "verify": None}
    assert (found.note or "").startswith("its draft does not see the video")
    seen = by_name([assisted], [{assisted.name: make_run(draft_visual_tokens=100)}])
    assert seen[assisted.name].note is None
    assert by_name([PLAIN], [{"plain": make_run()}])["plain"].note is None


def test_tokens_that_came_with_the_prefill_are_not_decoded() -> None:
    run = speculative(tokens=(1,) * 9, first_tokens=5, rounds=2, decode_s=2.0)
    found = by_name([SD], [{"sd": run}])["sd"]
    assert (found.mean_acceptance_length, found.tokens_per_s) == (2.0, 2.0)


def test_samples_are_not_compared_token_by_token() -> None:
    clips = [{"plain": make_run(), "sd": speculative(tokens=(1, 2))}]
    (found,) = figures([SD], clips, sampled=True)
    assert (found.exact_match, found.first_differences) == (None, ())
    assert found.decode_speedup_vs_plain is not None


def test_exact_match_counts_clips_and_tells_where_the_others_differ() -> None:
    plain = make_run(tokens=(5, 6, 7), margins=(0.5, 0.01, 2.0))
    clips = [
        {"plain": plain, "sd": speculative(tokens=(5, 6, 7))},
        {"plain": plain, "sd": speculative(clip="b", tokens=(5, 9, 7))},
        {"plain": plain, "sd": speculative(tokens=(5, 6, 7))},
        {"plain": plain, "sd": speculative(tokens=(5, 6, 7))},
    ]
    found = by_name([PLAIN, SD], clips)
    assert found["sd"].exact_match == 0.75
    assert found["sd"].first_differences == (Difference("b", 1, 0.01),)
    assert found["plain"].exact_match == 1.0
    assert found["sd"].to_dict()["first_differences"] == [
        {"clip": "b", "position": 1, "margin": 0.01}
    ]


def test_a_text_that_goes_on_or_ends_early_differs_behind_the_shorter_one() -> None:
    plain = make_run(tokens=(5, 6), margins=(0.5, 0.25))
    longer, shorter = make_run(tokens=(5, 6, 7)), make_run(tokens=(5,))
    assert find_difference(longer, plain) == Difference("a", 2, None)
    assert find_difference(shorter, plain) == Difference("a", 1, 0.25)
    assert find_difference(plain, plain) is None


def test_what_was_not_run_or_is_not_known_is_null() -> None:
    found = by_name([SD], [{"sd": speculative()}])["sd"].to_dict()
    unknown = {
        *("exact_match", "facts_accuracy", "facts_relative", "facts_by_kind"),
        *("question_accuracy", "rejections_on_facts", "decode_speedup_vs_plain"),
        *("decode_speedup_vs_transformers", "end_to_end_speedup_vs_plain", "other_share"),
        *("peak_memory_bytes", "draft_acceptance_rate", "note"),
    }
    assert {name for name, value in found.items() if value is None} == unknown
    assert found["step_ms"]["target"] is None


def test_no_clip_gives_no_figures() -> None:
    found = by_name([PLAIN], [])["plain"]
    assert (found.clips, found.tokens_per_s, found.exact_match) == (0, None, None)


def test_questions_are_counted_by_kind() -> None:
    runs = [
        make_run(answer_right=True, question_kind="count"),
        make_run(answer_right=False, question_kind="count"),
        make_run(answer_right=True, question_kind="colour"),
        make_run(),
    ]
    found = by_name([PLAIN], [{"plain": run} for run in runs])["plain"]
    assert found.question_accuracy == {"count": 0.5, "colour": 1.0}


def test_rejections_are_pooled_over_the_clips_with_facts() -> None:
    runs = [
        speculative(rejections=4, rejections_on_facts=1),
        speculative(rejections=1, rejections_on_facts=1),
        speculative(rejections=90),
    ]
    assert by_name([SD], [{"sd": run} for run in runs])["sd"].rejections_on_facts == 2 / 5


def test_memory_is_the_most_of_any_clip_and_tokens_a_mean() -> None:
    runs = [
        speculative(peak_memory_bytes=3, visual_tokens=10, draft_visual_tokens=1),
        speculative(peak_memory_bytes=None, visual_tokens=20, draft_visual_tokens=3),
    ]
    found = by_name([SD], [{"sd": run} for run in runs])["sd"]
    assert found.peak_memory_bytes == 3
    assert (found.visual_tokens, found.draft_visual_tokens) == (15, 2)
