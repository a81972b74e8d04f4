"""The parts of a record that tell of a run: the video, the speculation, and where the time went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vidcap.output.record import SpeculationPart, TimingPart, VideoPart
from vidcap.settings import SpeculationSettings

if TYPE_CHECKING:
    from vidcap.engine.policy import Policy
    from vidcap.engine.stats import Stats
    from vidcap.video import Frames


@dataclass(slots=True)
class Stopwatch:
    """Seconds outside the engine that one answer accounts for.

    Attributes:
        begin: reading of ``time.perf_counter()`` when the work for the answer began.
        decode_video_s, preprocess_s: of the video, 0 where an earlier answer accounts for it.
        first_token: reading when the first token was there, None before.
    """

    begin: float
    decode_video_s: float = 0.0
    preprocess_s: float = 0.0
    first_token: float | None = None

    @contextmanager
    def preprocessing(self) -> Iterator[None]:
        """Counts the block as preprocessing."""
        begin = time.perf_counter()
        yield
        self.preprocess_s += time.perf_counter() - begin

    def note_token(self) -> None:
        """A token is there."""
        if self.first_token is None:
            self.first_token = time.perf_counter()

    def timing(self, stats: Stats, load_s: float | None) -> TimingPart:
        """The record's timing of an answer that is complete now.

        Args:
            stats: of the request.
            load_s: seconds that loading the models took.
        """
        seconds = stats.seconds
        decode_s = seconds["decode"]
        return TimingPart(
            load_s=load_s,
            decode_video_s=self.decode_video_s,
            preprocess_s=self.preprocess_s,
            vision_s=seconds["vision"],
            target_prefill_s=seconds["target_prefill"],
            draft_prefill_s=seconds["draft_prefill"],
            draft_s=seconds["draft"],
            verify_s=seconds["verify"],
            other_s=max(0.0, decode_s - seconds["draft"] - seconds["verify"]),
            overlap_s=stats.overlap_s,
            ttft_s=None if self.first_token is None else self.first_token - self.begin,
            decode_s=decode_s,
            total_s=time.perf_counter() - self.begin,
            tokens_per_s=(stats.generated - 1) / decode_s if decode_s else None,
        )


def video_part(frames: Frames) -> VideoPart:
    """What the record says about the frames that the models saw."""
    info = frames.info
    return VideoPart(
        duration_s=info.duration_s,
        width=info.width,
        height=info.height,
        rotation=info.rotation,
        codec=info.codec,
        frames_used=len(frames.times_s),
        frame_times_s=tuple(round(float(time_s), 6) for time_s in frames.times_s),
        decoded_s=frames.decoded_s,
        corrupt_frames=frames.corrupt_frames,
    )


def speculation_part(
    speculation: SpeculationSettings, stats: Stats, policy: Policy | None
) -> SpeculationPart:
    """What the record says about drafting and verification.

    Args:
        speculation: the method.
        stats: of the request.
        policy: what ``auto`` has learnt about the pair.
    """
    most = max(stats.histogram, default=-1)
    return SpeculationPart(
        method=speculation.method,
        verify=speculation.verify if speculation.speculates else None,
        num_spec_steps=stats.rounds,
        num_draft_tokens=stats.drafted,
        num_accepted_draft_tokens=stats.accepted,
        mean_acceptance_length=stats.mean_acceptance_length,
        mean_accepted_drafts=stats.mean_accepted_drafts,
        draft_acceptance_rate=stats.draft_acceptance_rate,
        acceptance_histogram=tuple(stats.histogram.get(count, 0) for count in range(most + 1)),
        loosened_tokens=stats.loosened,
        fallback=policy.verdict if speculation.tree == "auto" and policy else None,
        arm_rounds=dict(stats.arm_rounds) if speculation.arms is not None else None,
    )
