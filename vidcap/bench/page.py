"""The figures as one self-contained HTML page: tables, and a bar per arm.

Nothing is fetched and no script runs; whatever comes from outside (names, prompts, paths) is
escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from vidcap.bench.metrics import ArmFigures
from vidcap.bench.report import COLUMNS, Report
from vidcap.errors import VidcapError
from vidcap.output.jsonout import to_json

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #8886; padding: .25rem .7rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.scroll { overflow-x: auto; }
.bars { display: grid; grid-template-columns: max-content 1fr; gap: .25rem .8rem; }
.bar { background: #3b6ea8; border-radius: 2px; display: inline-block; height: .9em;
  margin-right: .5rem; vertical-align: -.1em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; }
dd { margin: 0; overflow-wrap: anywhere; }
pre { overflow-x: auto; }
"""

#: Width of the longest bar; its figure stands behind it.
_LONGEST_PERCENT = 85


@dataclass(frozen=True, slots=True)
class _Chart:
    """One figure of every arm as bars from 0."""

    title: str
    value: Callable[[ArmFigures], float | None]
    words: Callable[[float], str]


_CHARTS = (
    _Chart("Tokens per second", lambda arm: arm.tokens_per_s, "{:.1f}".format),
    _Chart(
        "Decoding speed against plain",
        lambda arm: arm.decode_speedup_vs_plain,
        "{:.2f}x".format,
    ),
    _Chart(
        "Speed from the file to the whole answer against plain",
        lambda arm: arm.end_to_end_speedup_vs_plain,
        "{:.2f}x".format,
    ),
    _Chart("Tokens per target call", lambda arm: arm.mean_acceptance_length, "{:.2f}".format),
    _Chart("Facts that are right", lambda arm: arm.facts_accuracy, "{:.1%}".format),
)


def write_page(report: Report, path: Path) -> None:
    """Write a report as a page.

    Raises:
        VidcapError: the file cannot be written.
    """
    try:
        path.write_text(render_page(report), "utf-8", "replace")
    except OSError as error:
        words = f"cannot write {path}: {error.strerror or error}"
        raise VidcapError(words, exit_code=3) from error


def render_page(report: Report) -> str:
    """A report as an HTML document."""
    meanings = {column.head: column.meaning for column in COLUMNS}
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>vidcap bench</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
        "<h1>vidcap bench</h1>",
        *(_table(rows, meanings) for rows in report.tables()),
        *_notes(report.arms),
        *(_bars(chart, report.arms) for chart in _CHARTS),
        _list("Settings", report.settings),
        _list("Machine", report.machine),
        "<details><summary>All figures as JSON</summary>",
        f"<pre>{escape(to_json(report.to_dict(), indent=2))}</pre></details>",
        "</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _table(rows: Sequence[Sequence[str]], meanings: Mapping[str, str]) -> str:
    heads = (
        f'<th title="{escape(meanings.get(head, ""))}">{escape(head)}</th>' for head in rows[0]
    )
    lines = (_row(f"<td>{escape(cell)}</td>" for cell in row) for row in rows[1:])
    return "\n".join(['<div class="scroll"><table>', _row(heads), *lines, "</table></div>"])


def _row(cells: Iterable[str]) -> str:
    return "<tr>" + "".join(cells) + "</tr>"


def _notes(arms: Sequence[ArmFigures]) -> list[str]:
    return [f"<p>{escape(arm.name)}: {escape(arm.note)}.</p>" for arm in arms if arm.note]


def _bars(chart: _Chart, arms: Sequence[ArmFigures]) -> str:
    """The bars of the arms that have the figure, nothing where none has it."""
    found = [(arm, value) for arm in arms if (value := chart.value(arm)) is not None]
    most = max((value for _, value in found), default=0.0)
    if not most:
        return ""
    several = len({arm.settings.get("visual_tokens") for arm in arms}) > 1
    bars = (
        f"<div>{escape(_label(arm, several))}</div><div>"
        f'<span class="bar" style="width: {_LONGEST_PERCENT * value / most:.1f}%"></span>'
        f"{escape(chart.words(value))}</div>"
        for arm, value in found
    )
    return f'<h2>{escape(chart.title)}</h2>\n<div class="bars">\n' + "\n".join(bars) + "\n</div>"


def _label(arm: ArmFigures, several_lengths: bool) -> str:
    if not several_lengths or arm.visual_tokens is None:
        return arm.name
    return f"{arm.name}, {arm.visual_tokens:.0f} visual tokens"


def _list(title: str, values: Mapping[str, Any]) -> str:
    """Names and values that say something, those of nested ones on one line each."""
    lines = (
        f"<dt>{escape(name)}</dt><dd>{escape(_words(value))}</dd>"
        for name, value in values.items()
        if value is not None
    )
    return f"<h2>{escape(title)}</h2>\n<dl>\n" + "\n".join(lines) + "\n</dl>"


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(
            f"{name} {_words(item)}" for name, item in value.items() if item is not None
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value)) or "none"
    return str(value)
