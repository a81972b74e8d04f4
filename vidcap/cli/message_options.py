"""Options that say what is printed beside the answers, and in which form facts are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from vidcap.cli.binding import option

_output = partial(option, panel="Output")


@dataclass(frozen=True, slots=True)
class FactsFormatOptions:
    """What facts look like."""

    format: Annotated[
        Literal["text", "json"], _output("--format", help="Form of what is printed.")
    ] = "text"


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """What is said on standard error."""

    quiet: Annotated[bool, _output("-q", "--quiet", help="Errors only.")] = False
    verbose: Annotated[bool, _output("-v", "--verbose", help="More details.")] = False
    debug: Annotated[bool, _output("--debug", help="Print a traceback with each error.")] = False


@dataclass(frozen=True, slots=True)
class ReportOptions(MessageOptions):
    """What is said beside the answer."""

    profile: Annotated[bool, _output("--profile", help="Print a table of where the time went.")] = (
        False
    )


@dataclass(frozen=True, slots=True)
class AnswerReportOptions(ReportOptions):
    """What is said and kept beside the answers."""

    trace: Annotated[
        Path | None,
        _output(
            "--trace",
            metavar="FILE",
            help="Write what every thread did and when: a trace for chrome://tracing or "
            "ui.perfetto.dev.",
        ),
    ] = None
