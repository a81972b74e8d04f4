"""``--profile``: where the time of one answer went, from its record alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vidcap.cli.console import Console
from vidcap.output.record import Record, SpeculationPart, TimingPart
from vidcap.output.text import one_line

if TYPE_CHECKING:
    from rich.table import Table

_STAGES = (
    ("load models", "load_s"),
    ("decode video", "decode_video_s"),
    ("preprocess", "preprocess_s"),
    ("vision", "vision_s"),
    ("target prefill", "target_prefill_s"),
    ("draft prefill", "draft_prefill_s"),
    ("draft", "draft_s"),
    ("verify", "verify_s"),
    ("other", "other_s"),
)

#: Width of the longest bar of the histogram, in characters.
_BAR = 30


def print_profile(record: Record, console: Console) -> None:
    """Prints the stages with their share of the total, and the figures of speculation below."""
    question = f"  {one_line(record.question)}" if record.question else ""
    console.line(one_line(record.path) + question)
    console.draw(stage_table(record))
    for line in figures(record):
        console.line(line)


def stage_table(record: Record) -> Table:
    """Seconds and shares of the stages.

    Loading happens once for all answers of a run and is not part of their total. Where the draft
    is prefilled beside the target, the overlap is in the seconds of both.
    """
    from rich import box
    from rich.table import Table

    timing = _timing(record)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("stage")
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    for name, key in _STAGES:
        seconds = getattr(timing, key)
        share = None if key == "load_s" else _share(seconds, timing.total_s)
        table.add_row(name, _number(seconds, 3), _percent(share))
    table.add_section()
    table.add_row("total", _number(timing.total_s, 3), "")
    if timing.overlap_s:
        table.add_row("overlap", _number(timing.overlap_s, 3), "")
    return table


def comparison(columns: Sequence[tuple[str, Record]]) -> list[str]:
    """Lines of a table that sets answers by different methods side by side.

    Args:
        columns: heading and record of each method.
    """
    rows = [
        ("", [name for name, _ in columns]),
        ("tokens/s", [_number(_timing(record).tokens_per_s, 1) for _, record in columns]),
        (
            "tokens per target call",
            [_number(_speculation(record).mean_acceptance_length, 2) for _, record in columns],
        ),
        ("prefill", [_seconds(_prefill(_timing(record))) for _, record in columns]),
        ("draft", [_seconds(_timing(record).draft_s) for _, record in columns]),
        ("verify", [_seconds(_timing(record).verify_s) for _, record in columns]),
        ("total", [_seconds(_timing(record).total_s) for _, record in columns]),
    ]
    return [f"{name:<24}" + "".join(f"{cell:>12}" for cell in cells) for name, cells in rows]


def histogram_lines(histogram: Sequence[int], bar: str = "#") -> list[str]:
    """One line for each number of accepted drafts: how many rounds accepted so many."""
    most = max(histogram, default=0)
    if not most:
        return []
    bars = [bar * max(round(_BAR * rounds / most), bool(rounds)) for rounds in histogram]
    return [
        f"  {accepted:>3}  {rounds:>5}  {bars[accepted]}".rstrip()
        for accepted, rounds in enumerate(histogram)
    ]


def figures(record: Record) -> Iterator[str]:
    """Lines with tokens, speed, acceptance and what ran."""
    speculation, timing = _speculation(record), _timing(record)
    if record.tokens:
        tokens = record.tokens
        yield (
            f"tokens: {tokens.generated} generated ({record.finish_reason or 'unfinished'}), "
            f"{_count(tokens.prompt)} in the prompt, {_count(tokens.visual)} of them visual"
        )
    first = _number(timing.ttft_s, 3)
    yield f"tokens/s: {_number(timing.tokens_per_s, 1)}   first token after: {first} s"
    if timing.decode_s:
        outside = _percent(_share(timing.other_s, timing.decode_s))
        yield f"decoding: {_number(timing.decode_s, 3)} s, {outside} of it outside the models"
    yield (
        f"tokens per target call: {_number(speculation.mean_acceptance_length, 2)}   "
        f"target calls: {speculation.num_spec_steps}"
    )
    if speculation.num_draft_tokens:
        yield (
            f"accepted drafts per round: {_number(speculation.mean_accepted_drafts, 2)}   "
            f"drafted tokens accepted: {_percent(speculation.draft_acceptance_rate)}"
        )
        if speculation.arm_rounds is not None:
            turns = ", ".join(f"{name} {count}" for name, count in speculation.arm_rounds.items())
            yield f"rounds by arm: {turns}"
        yield "accepted drafts: rounds"
        yield from histogram_lines(speculation.acceptance_histogram)
    if record.model:
        model = record.model
        yield f"method: {speculation.method}   device: {model.device}   dtype: {model.dtype}"
        yield f"attention: {model.attention}"
        if model.tensor_parallel > 1:
            yield f"tensor parallel: {model.tensor_parallel} processes share the target's layers"
        if model.shared_tower:
            yield "vision tower: the target's, shared by the draft"


def _timing(record: Record) -> TimingPart:
    return record.timing or TimingPart()


def _speculation(record: Record) -> SpeculationPart:
    return record.speculation or SpeculationPart()


def _prefill(timing: TimingPart) -> float | None:
    parts = [s for s in (timing.target_prefill_s, timing.draft_prefill_s) if s is not None]
    return sum(parts) if parts else None


def _share(seconds: float | None, total: float | None) -> float | None:
    return seconds / total if seconds is not None and total else None


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _count(value: int | None) -> str:
    return "?" if value is None else str(value)
