"""The figures as JSON, as a table, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vidcap.bench.metrics import ArmFigures
from vidcap.output.jsonout import to_json

#: Version of the form of the JSON.
SCHEMA_VERSION = 1

FORMATS: tuple[str, ...] = ("table", "json", "md", "csv")


@dataclass(frozen=True, slots=True)
class Report:
    """What a run of the bench found.

    Attributes:
        machine: what it ran on.
        settings: what all arms have in common.
        arms: their figures, by length of the clips and then in the order they were asked for.
    """

    machine: Mapping[str, Any]
    settings: Mapping[str, Any]
    arms: Sequence[ArmFigures]

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON types."""
        return {
            "schema_version": SCHEMA_VERSION,
            "machine": dict(self.machine),
            "settings": dict(self.settings),
            "arms": [arm.to_dict() for arm in self.arms],
        }

    def render(self, form: str, *, ascii_only: bool = False) -> str:
        """The report in one of ``FORMATS``, with a line break at its end.

        Args:
            form: its name.
            ascii_only: escape other characters, in JSON.
        """
        if form == "json":
            return to_json(self.to_dict(), indent=2, ascii_only=ascii_only) + "\n"
        if form == "csv":
            return _csv(self.arms)
        return "\n".join(_aligned(table, markdown=form == "md") for table in self.tables())

    def tables(self) -> list[list[list[str]]]:
        """The tables, each as rows of cells with the heads of its columns first.

        The first has a row per arm and the columns of ``COLUMNS``. Where questions were asked,
        what is right by kind follows.
        """
        rows = [[column.cell(arm) for column in COLUMNS] for arm in self.arms]
        tables = [[[column.head for column in COLUMNS], *rows]]
        if any(arm.question_accuracy for arm in self.arms):  # whoever asks wants to know in detail
            facts, answers = (
                [getattr(arm, name) for arm in self.arms]
                for name in ("facts_by_kind", "question_accuracy")
            )
            tables += [_by_kind("facts", self.arms, facts), _by_kind("answers", self.arms, answers)]
        return [table for table in tables if table]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f}%"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _steps(arm: ArmFigures) -> str:
    return "/".join(_number(arm.step_ms[call], 2) for call in ("target", "draft", "verify"))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table of arms.

    Attributes:
        head: what stands above it.
        meaning: of its figures, in words.
        cell: what an arm has there.
    """

    head: str
    meaning: str
    cell: Callable[[ArmFigures], str]


COLUMNS: tuple[Column, ...] = (
    Column("arm", "the method, with the parts that were varied", lambda arm: arm.name),
    Column("visual", "visual tokens of the target", lambda arm: _number(arm.visual_tokens, 0)),
    Column(
        "seen",
        "visual tokens that the draft sees, at most",
        lambda arm: _number(arm.draft_visual_tokens, 0),
    ),
    Column("clips", "clips that count", lambda arm: str(arm.clips)),
    Column("exact", "clips with the tokens of plain", lambda arm: _percent(arm.exact_match, 0)),
    Column("facts", "facts that are right", lambda arm: _percent(arm.facts_accuracy, 1)),
    Column(
        "drafts",
        "accepted drafts per round, without the bonus token",
        lambda arm: _number(arm.mean_accepted_drafts, 2),
    ),
    Column(
        "tok/call",
        "tokens per target call, with the bonus token",
        lambda arm: _number(arm.mean_acceptance_length, 2),
    ),
    Column("tok/s", "tokens per second of decoding", lambda arm: _number(arm.tokens_per_s, 1)),
    Column("first s", "seconds to the first token", lambda arm: _number(arm.ttft_s, 3)),
    Column(
        "decode",
        "decoding speed against plain",
        lambda arm: _times(arm.decode_speedup_vs_plain),
    ),
    Column(
        "/transf.",
        "decoding speed against transformers",
        lambda arm: _times(arm.decode_speedup_vs_transformers),
    ),
    Column(
        "total",
        "speed from the file to the whole answer against plain",
        lambda arm: _times(arm.end_to_end_speedup_vs_plain),
    ),
    Column(
        "prefill",
        "share of vision towers and prefills in that time",
        lambda arm: _percent(arm.prefill_share, 0),
    ),
    Column("step ms", "milliseconds of a target, a draft and a verifying call", _steps),
)


def _by_kind(
    title: str, arms: Sequence[ArmFigures], shares: Sequence[Mapping[str, float] | None]
) -> list[list[str]]:
    """A table of shares by kind, empty where no arm has any."""
    kinds = list(dict.fromkeys(kind for share in shares for kind in share or {}))
    if not kinds:
        return []
    rows = [
        [arm.name, _number(arm.visual_tokens, 0)]
        + [_percent((share or {}).get(kind), 1) for kind in kinds]
        for arm, share in zip(arms, shares, strict=True)
    ]
    return [[title, "visual", *kinds], *rows]


def _aligned(rows: Sequence[Sequence[str]], *, markdown: bool) -> str:
    """Columns of equal width, the first to the left and the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        [cell.rjust(width) if k else cell.ljust(width) for k, (cell, width) in enumerate(cells)]
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    if not markdown:
        return "".join("  ".join(line).rstrip() + "\n" for line in lines)
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "".join("| " + " | ".join(line) + " |\n" for line in (lines[0], rule, *lines[1:]))


def _csv(arms: Sequence[ArmFigures]) -> str:
    """One line per arm with every number, nested ones under names like ``step_ms.draft``."""
    flat = [_flattened(arm.to_dict()) for arm in arms]
    names = list(dict.fromkeys(name for values in flat for name in values))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flattened(value, f"{prefix}{key}.")
        elif not isinstance(value, list | tuple):
            flat[prefix + key] = value
    return flat
