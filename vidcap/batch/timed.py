"""One record from the records of a video's windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypeVar

from vidcap.output.record import (
    FinishReason,
    Record,
    Segment,
    SpeculationPart,
    TimingPart,
    TokenCounts,
    VideoPart,
)

T = TypeVar("T")

#: The first one that a window ended by is what the whole record ends by.
_BY_WEIGHT: tuple[FinishReason, ...] = ("interrupted", "length", "stop")


def join_windows(
    records: Sequence[Record], ranges: Sequence[tuple[float, float]], warnings: Sequence[str] = ()
) -> Record:
    """The record of a video that was described window by window.

    Counts and times are summed, means follow from the sums, the texts stand below each other.

    Args:
        records: one per window, at least one.
        ranges: start and end of each window in seconds.
        warnings: further ones.
    """
    segments = tuple(
        Segment(start_s, end_s, record.text or "")
        for record, (start_s, end_s) in zip(records, ranges, strict=True)
    )
    every_warning = [text for record in records for text in record.warnings] + list(warnings)
    reasons = {record.finish_reason for record in records}
    return replace(
        records[0],
        text="\n".join(segment.text for segment in segments),
        finish_reason=next((reason for reason in _BY_WEIGHT if reason in reasons), None),
        segments=segments,
        warnings=tuple(dict.fromkeys(every_warning)),
        video=_joined(_video, [record.video for record in records]),
        tokens=_joined(_tokens, [record.tokens for record in records]),
        speculation=_joined(_speculation, [record.speculation for record in records]),
        timing=_joined(_timing, [record.timing for record in records]),
    )


def _joined(join: Callable[[list[T]], T], parts: Sequence[T | None]) -> T | None:
    known = [part for part in parts if part is not None]
    return join(known) if known else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _count(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _video(parts: list[VideoPart]) -> VideoPart:
    return replace(
        parts[-1],
        frames_used=sum(part.frames_used for part in parts),
        frame_times_s=tuple(time_s for part in parts for time_s in part.frame_times_s),
        corrupt_frames=sum(part.corrupt_frames for part in parts),
    )


def _tokens(parts: list[TokenCounts]) -> TokenCounts:
    return TokenCounts(
        prompt=_count([part.prompt for part in parts]),
        visual=_count([part.visual for part in parts]),
        draft_visual=_count([part.draft_visual for part in parts]),
        generated=sum(part.generated for part in parts),
    )


def _speculation(parts: list[SpeculationPart]) -> SpeculationPart:
    rounds = sum(part.num_spec_steps for part in parts)
    drafted = sum(part.num_draft_tokens for part in parts)
    accepted = sum(part.num_accepted_draft_tokens for part in parts)
    histograms = [part.acceptance_histogram for part in parts]
    tokens = [
        part.mean_acceptance_length * part.num_spec_steps
        for part in parts
        if part.mean_acceptance_length is not None
    ]
    return replace(
        parts[-1],
        num_spec_steps=rounds,
        num_draft_tokens=drafted,
        num_accepted_draft_tokens=accepted,
        mean_acceptance_length=sum(tokens) / rounds if rounds and tokens else None,
        mean_accepted_drafts=accepted / rounds if rounds else None,
        draft_acceptance_rate=accepted / drafted if drafted else None,
        acceptance_histogram=tuple(map(sum, zip_longest(*histograms, fillvalue=0))),
        loosened_tokens=sum(part.loosened_tokens for part in parts),
        arm_rounds=_arm_rounds([part.arm_rounds for part in parts if part.arm_rounds is not None]),
    )


def _arm_rounds(parts: list[dict[str, int]]) -> dict[str, int] | None:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0) for part in parts) for name in names} if parts else None


def _timing(parts: list[TimingPart]) -> TimingPart:
    decode_s = _sum([part.decode_s for part in parts])
    tokens = [
        part.tokens_per_s * part.decode_s
        for part in parts
        if part.tokens_per_s is not None and part.decode_s is not None
    ]
    summed = {
        name: _sum([getattr(part, name) for part in parts])
        for name in (
            *("decode_video_s", "preprocess_s", "vision_s", "target_prefill_s", "draft_prefill_s"),
            *("draft_s", "verify_s", "other_s", "overlap_s", "total_s"),
        )
    }
    return TimingPart(
        **summed,
        load_s=parts[0].load_s,
        ttft_s=parts[0].ttft_s,
        decode_s=decode_s,
        tokens_per_s=sum(tokens) / decode_s if tokens and decode_s else None,
    )
