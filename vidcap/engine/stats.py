"""Counters and timers of one request; the loop and its parts report here."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from vidcap.trace import Trace


@dataclass(frozen=True, slots=True)
class RoundCost:
    """What one round took.

    Attributes:
        rows: nodes that the target ran over, the root included.
        draft_s, verify_s: seconds of drafting and of verification.
    """

    rows: int
    draft_s: float
    verify_s: float


@dataclass(slots=True)
class Stats:
    """What happened in one request.

    Attributes:
        synchronize: waits for what the calling thread gave the devices to do, before a timer is
            read; None where calls are synchronous.
        trace: gets an event for every timer, None where nobody wants a trace.
        seconds: wall time per stage (``vision``, ``target_prefill``, ``draft_prefill``, ``decode``
            and within it ``draft``, ``verify`` and ``commit``; ``wait`` of a parallel method for
            its draft). Stages of two threads may overlap; each counts in full.
        rounds: target calls of the decode loop, the prefill's not among them.
        drafted: drafted tokens handed to the target.
        accepted: drafted tokens that were committed to the output.
        histogram: how many rounds accepted 0, 1, 2 ... drafts.
        generated: tokens of the output, the first one (from the prefill) included.
        loosened: accepted drafts that were not the target's choice (loose verification).
        visual_mass: share of the last accepted token's attention on visual tokens, None where it
            is not measured.
        skipped: rounds that were left undrafted for it.
        draft_visual: most visual tokens that the draft saw, None where no model drafted.
        overlap_s: what the draft's vision and prefill took beside the target's.
        arm_rounds: rounds by the draft arm that had the turn, empty where there is one draft.
        last_round: what the newest round took, None before the first.
    """

    synchronize: Callable[[], None] | None = None
    trace: Trace | None = None
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    histogram: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    generated: int = 0
    loosened: int = 0
    visual_mass: float | None = None
    skipped: int = 0
    draft_visual: int | None = None
    overlap_s: float = 0.0
    arm_rounds: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    last_round: RoundCost | None = None
    _last: dict[str, float] = field(default_factory=dict)
    _apart: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def timer(
        self, stage: str, event: str | None = None, apart_from: Sequence[str] = ()
    ) -> Iterator[None]:
        """Add the time spent inside to `stage`; any thread may.

        Args:
            stage: key of `seconds`.
            event: what the trace calls it, None for the stage's own name.
            apart_from: stages that are being timed around this one and do not count it.
        """
        begin = time.perf_counter()
        try:
            yield
        finally:
            if self.synchronize is not None:
                self.synchronize()
            end = time.perf_counter()
            self._note(stage, end - begin, apart_from)
            if self.trace is not None:
                self.trace.add(event or stage.replace("_", " "), begin, end)

    def _note(self, stage: str, seconds: float, apart_from: Sequence[str]) -> None:
        with self._lock:
            for outer in apart_from:
                self._apart[outer] += seconds
            self._last[stage] = seconds - self._apart.pop(stage, 0.0)
            self.seconds[stage] += self._last[stage]

    def count_round(self, drafted: int, accepted: int) -> None:
        """Note one target call with its drafted and accepted tokens, after its timers."""
        self.rounds += 1
        self.drafted += drafted
        self.accepted += accepted
        self.histogram[accepted] += 1
        draft_s, verify_s = (self._last.get(stage, 0.0) for stage in ("draft", "verify"))
        self.last_round = RoundCost(drafted + 1, draft_s, verify_s)

    @property
    def mean_accepted_drafts(self) -> float | None:
        """Accepted drafts per round, without the bonus token."""
        return self.accepted / self.rounds if self.rounds else None

    @property
    def mean_acceptance_length(self) -> float | None:
        """Tokens per target call of the decode loop, the bonus token included."""
        return (self.generated - 1) / self.rounds if self.rounds else None

    @property
    def draft_acceptance_rate(self) -> float | None:
        """Accepted share of the drafted tokens."""
        return self.accepted / self.drafted if self.drafted else None
