"""From runs to the figures of an arm.

Facts, counts and acceptance are pooled over the clips, sum over sum. Times, speedups and shares of
time are medians over the clips of each clip's own figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Any

from vidcap.bench.arms import ASSISTED, PLAIN, TRANSFORMERS, Arm
from vidcap.bench.results import ArmRun

#: The runs of one clip by the name of the arm.
ClipRuns = Mapping[str, ArmRun]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an arm's text leaves that of plain decoding.

    Attributes:
        clip: its name.
        position: index of the first token that differs.
        margin: by how much the target preferred its token there to the next best (difference of
            scores), None where plain decoding had ended.
    """

    clip: str
    position: int
    margin: float | None


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """The figures of one arm; None where they cannot be told or the arm compared with did not run.

    Attributes:
        name, settings: of the arm.
        clips: how many count.
        exact_match: share of the clips with the tokens of plain decoding, None for samples.
        first_differences: of the other clips.
        facts_accuracy: right / (right + wrong + missing).
        facts_relative: facts_accuracy / that of plain decoding.
        facts_by_kind: accuracy by kind of fact.
        question_accuracy: share of right answers by kind of question.
        mean_accepted_drafts: per round, without the bonus token.
        mean_acceptance_length: tokens per target call behind the prefill, with the bonus token.
        draft_acceptance_rate: accepted / drafted tokens.
        rejections_on_facts: share of the draft's first mismatches that concern a fact, see
            ``vidcap.bench.facts.rejections_on_facts``.
        visual_tokens, draft_visual_tokens: mean per clip.
        tokens_per_s: tokens behind the first one per second of decoding.
        ttft_s: from the start of decoding the video to the first token.
        decode_speedup_vs_plain, decode_speedup_vs_transformers: tokens per second / theirs.
        end_to_end_speedup_vs_plain: total time of plain decoding / this one's.
        prefill_share: vision towers and prefills / total time.
        other_share: decoding time outside model calls / decoding time.
        step_ms: milliseconds per call of ``target`` (one token, from plain decoding), ``draft``
            and ``verify``.
        peak_memory_bytes: most memory of any run.
        note: what has to be known about the arm, None for nothing.
    """

    name: str
    settings: dict[str, Any]
    clips: int
    exact_match: float | None
    first_differences: tuple[Difference, ...]
    facts_accuracy: float | None
    facts_relative: float | None
    facts_by_kind: dict[str, float] | None
    question_accuracy: dict[str, float] | None
    mean_accepted_drafts: float | None
    mean_acceptance_length: float | None
    draft_acceptance_rate: float | None
    rejections_on_facts: float | None
    visual_tokens: float | None
    draft_visual_tokens: float | None
    tokens_per_s: float | None
    ttft_s: float | None
    decode_speedup_vs_plain: float | None
    decode_speedup_vs_transformers: float | None
    end_to_end_speedup_vs_plain: float | None
    prefill_share: float | None
    other_share: float | None
    step_ms: dict[str, float | None]
    peak_memory_bytes: int | None
    note: str | None

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON types, in printing order."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values["first_differences"] = [
            {"clip": item.clip, "position": item.position, "margin": item.margin}
            for item in self.first_differences
        ]
        return values


def figures(
    arms: Sequence[Arm], clips: Sequence[ClipRuns], *, sampled: bool = False, **more: Any
) -> list[ArmFigures]:
    """The figures of every arm.

    Args:
        arms: what ran.
        clips: the runs of every clip on which all of them ran.
        sampled: whether tokens were drawn, so that equal ones are not to be expected.
        more: put into the arms' settings.
    """
    return [_arm_figures(arm, clips, sampled, more) for arm in arms]


def _arm_figures(
    arm: Arm, clips: Sequence[ClipRuns], sampled: bool, more: dict[str, Any]
) -> ArmFigures:
    runs = [clip[arm.name] for clip in clips]
    plain, transformers = (_versus(clips, arm.name, name) for name in (PLAIN, TRANSFORMERS))
    peaks = (run.peak_memory_bytes for run in runs)
    return ArmFigures(
        name=arm.name,
        settings=arm.settings() | more,
        clips=len(runs),
        **_exactness([] if sampled else plain),
        **_accuracy(runs, plain),
        **_acceptance(runs),
        **_times(runs, plain),
        decode_speedup_vs_transformers=_speedup(transformers),
        step_ms=_step_ms(arm, runs, [other for _, other in plain]),
        peak_memory_bytes=max((peak for peak in peaks if peak is not None), default=None),
        note=_note(arm, runs),
    )


def _note(arm: Arm, runs: Sequence[ArmRun]) -> str | None:
    if arm.name == ASSISTED and any(run.draft_visual_tokens == 0 for run in runs):
        return (
            "its draft does not see the video: generate hands on the prompt with its placeholders, "
            "but nothing to put in their place"
        )
    return None


def _exactness(plain: Sequence[tuple[ArmRun, ArmRun]]) -> dict[str, Any]:
    differences = [find_difference(run, other) for run, other in plain]
    return {
        "exact_match": _ratio(differences.count(None), len(differences)),
        "first_differences": tuple(item for item in differences if item is not None),
    }


def _accuracy(runs: Sequence[ArmRun], plain: Sequence[tuple[ArmRun, ArmRun]]) -> dict[str, Any]:
    accuracy = _fact_accuracy(runs)
    return {
        "facts_accuracy": accuracy,
        "facts_relative": _ratio(accuracy, _fact_accuracy([other for _, other in plain])),
        "facts_by_kind": _facts_by_kind(runs),
        "question_accuracy": _question_accuracy(runs),
    }


def _acceptance(runs: Sequence[ArmRun]) -> dict[str, Any]:
    rounds = sum(run.rounds for run in runs)
    accepted = sum(run.accepted for run in runs)
    return {
        "mean_accepted_drafts": _ratio(accepted, rounds),
        "mean_acceptance_length": _ratio(sum(map(_decoded, runs)), rounds),
        "draft_acceptance_rate": _ratio(accepted, sum(run.drafted for run in runs)),
        "rejections_on_facts": _rejected_facts(runs),
        "visual_tokens": _mean(run.visual_tokens for run in runs),
        "draft_visual_tokens": _mean(run.draft_visual_tokens for run in runs),
    }


def _times(runs: Sequence[ArmRun], plain: Sequence[tuple[ArmRun, ArmRun]]) -> dict[str, Any]:
    return {
        "tokens_per_s": _median(_tokens_per_s(run) for run in runs),
        "ttft_s": _median(run.ttft_s for run in runs),
        "decode_speedup_vs_plain": _speedup(plain),
        "end_to_end_speedup_vs_plain": _median(_ratio(b.total_s, a.total_s) for a, b in plain),
        "prefill_share": _median(_ratio(run.prefill_s, run.total_s) for run in runs),
        "other_share": _median(_ratio(run.other_s, run.decode_s) for run in runs),
    }


def find_difference(run: ArmRun, plain: ArmRun) -> Difference | None:
    """The first token in which a run differs from plain decoding of the clip, None for none."""
    if run.tokens == plain.tokens:
        return None
    pairs = zip(run.tokens, plain.tokens, strict=False)
    shorter = min(len(run.tokens), len(plain.tokens))
    position = next((k for k, (a, b) in enumerate(pairs) if a != b), shorter)
    margins = plain.margins or ()
    margin = margins[position] if position < len(margins) else None
    return Difference(run.clip, position, margin)


def _versus(clips: Sequence[ClipRuns], name: str, other: str) -> list[tuple[ArmRun, ArmRun]]:
    """Pairs of runs of two arms on the same clips, none where the other arm did not run."""
    return [(clip[name], clip[other]) for clip in clips if other in clip]


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _decoded(run: ArmRun) -> int:
    """Tokens that came behind the prefill."""
    return len(run.tokens) - run.first_tokens


def _tokens_per_s(run: ArmRun) -> float | None:
    return _ratio(_decoded(run), run.decode_s)


def _speedup(pairs: Sequence[tuple[ArmRun, ArmRun]]) -> float | None:
    return _median(_ratio(_tokens_per_s(run), _tokens_per_s(other)) for run, other in pairs)


def _facts(runs: Sequence[ArmRun]) -> dict[str, list[int]]:
    """[right, wrong, missing] by kind, summed over the clips."""
    total: dict[str, list[int]] = {}
    for run in runs:
        for kind, counts in (run.facts or {}).items():
            earlier = total.get(kind, [0, 0, 0])
            total[kind] = [a + b for a, b in zip(earlier, counts, strict=True)]
    return total


def _fact_accuracy(runs: Sequence[ArmRun]) -> float | None:
    counts = _facts(runs).values()
    return _ratio(sum(right for right, _, _ in counts), sum(map(sum, counts)))


def _facts_by_kind(runs: Sequence[ArmRun]) -> dict[str, float] | None:
    shares = {kind: counts[0] / sum(counts) for kind, counts in _facts(runs).items() if sum(counts)}
    return shares or None


def _question_accuracy(runs: Sequence[ArmRun]) -> dict[str, float] | None:
    answers: dict[str, list[bool]] = {}
    for run in runs:
        if run.answer_right is not None:
            answers.setdefault(run.question_kind or "", []).append(run.answer_right)
    return {kind: sum(right) / len(right) for kind, right in answers.items()} or None


def _rejected_facts(runs: Sequence[ArmRun]) -> float | None:
    known = [run for run in runs if run.rejections_on_facts is not None]
    return _ratio(
        sum(run.rejections_on_facts or 0 for run in known), sum(run.rejections for run in known)
    )


def _step_ms(arm: Arm, runs: Sequence[ArmRun], plain: Sequence[ArmRun]) -> dict[str, float | None]:
    if arm.speculation is None:
        alone = _call_ms(runs, lambda run: (run.decode_s, run.rounds))
        target = alone if arm.name == TRANSFORMERS else None
        return {"target": target, "draft": None, "verify": None}
    verify = _call_ms(runs, lambda run: (run.verify_s, run.rounds))
    return {
        "target": _call_ms(plain, lambda run: (run.verify_s, run.rounds)),
        "draft": _call_ms(runs, lambda run: (run.draft_s, run.draft_calls)),
        "verify": verify if arm.speculates else None,
    }


def _call_ms(
    runs: Sequence[ArmRun], spent: Callable[[ArmRun], tuple[float | None, int]]
) -> float | None:
    per_call = _median(_ratio(*spent(run)) for run in runs)
    return None if per_call is None else 1000 * per_call
