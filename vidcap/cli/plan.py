"""``vidcap plan``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vidcap.cli import runtime
from vidcap.cli.answers import make_console
from vidcap.cli.console import Console
from vidcap.cli.fetching import stay_offline
from vidcap.cli.options import (
    ComputeOptions,
    FactsFormatOptions,
    LengthOptions,
    MessageOptions,
    PairOptions,
    PromptOptions,
    SpeculationOptions,
    VideoOptions,
    WindowOptions,
    model_settings,
)
from vidcap.cli.tables import columns, print_facts, size_words
from vidcap.errors import VidcapError
from vidcap.output.text import one_line
from vidcap.settings import DEFAULT_DESCRIBE_PROMPT

if TYPE_CHECKING:
    from vidcap.batch.jobs import Entry
    from vidcap.models.work import ModelMemory
    from vidcap.plan import Planner, VideoPlan

#: Windows of a video that are listed; of more, only the number is told.
_MOST_WINDOWS = 10


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of a plan: those of a run that make a difference to it."""

    pair: PairOptions
    compute: ComputeOptions
    video: VideoOptions
    windows: WindowOptions
    prompt: PromptOptions
    length: LengthOptions
    speculation: SpeculationOptions
    format: FactsFormatOptions
    messages: MessageOptions


def plan(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="Video files, folders of them, or '-' for a video on standard input.",
        ),
    ],
    options: PlanOptions,
) -> int:
    """Say what would be decoded and needed; load no weights.

    Frames, their times and size, visual tokens, and about how much memory target and draft take. A
    pair need not be here: without --pair, the plan is for the largest preset that fits.
    """
    console = make_console(options.messages)
    runtime.hush_libraries(console)
    if options.pair.hub.offline:
        stay_offline()
    planner = _planner(options)
    if planner.notice:
        console.notice(planner.notice)
    from vidcap.batch.sources import open_feed

    plans: list[tuple[str, VideoPlan | VidcapError]] = []
    with open_feed(inputs, None) as feed:
        while (entry := feed.take()) is not None:
            console.busy(f"reading {one_line(entry.path)}")
            plans.append((entry.path, _plan_one(planner, entry, console)))
    console.still()
    _print(options, planner, plans)
    return 1 if any(isinstance(item, VidcapError) for _, item in plans) else 0


def _planner(options: PlanOptions) -> Planner:
    from vidcap.plan import Planner

    return Planner(
        model_settings(options.pair, options.compute),
        options.windows.settings(options.video.settings()),
        options.speculation.settings(use_draft=not options.pair.no_draft),
        prompt=options.prompt.text() or DEFAULT_DESCRIBE_PROMPT,
        max_tokens=options.length.max_tokens,
    )


def _plan_one(planner: Planner, entry: Entry, console: Console) -> VideoPlan | VidcapError:
    from vidcap.batch.jobs import Problem
    from vidcap.batch.requests import check_input

    if isinstance(entry, Problem):
        return console.error(entry.error, entry.path)
    try:
        check_input(entry.file)
        found = planner.plan(entry.file)
    except Exception as error:
        return console.error(error, entry.path)
    for warning in found.warnings:
        console.warning(warning, entry.path)
    return found


def _print(
    options: PlanOptions, planner: Planner, plans: list[tuple[str, VideoPlan | VidcapError]]
) -> None:
    from vidcap.plan import plan_data, planner_data

    data = planner_data(planner) | {
        "videos": [
            _error_data(path, item)
            if isinstance(item, VidcapError)
            else plan_data(item) | {"path": path}
            for path, item in plans
        ]
    }
    good = [(path, item) for path, item in plans if not isinstance(item, VidcapError)]
    lines = [] if plans and not good else _head_lines(planner)
    for path, item in good:
        heading = [f"==> {one_line(path)} <=="] if len(plans) > 1 else []
        lines += ["", *heading, *_plan_lines(item)]
    if options.format.format == "json" or lines:
        print_facts(options.format.format, data, lines)


def _error_data(path: str, error: VidcapError) -> dict[str, Any]:
    part = {"type": type(error).__name__, "message": error.message, "hint": error.hint}
    return {"path": path, "status": "error", "error": part}


def _head_lines(planner: Planner) -> list[str]:
    rows = [("pair", planner.pair.name), ("target", planner.target)]
    if planner.draft:
        rows.append(("draft", planner.draft))
    devices = [planner.device]
    if planner.draft and planner.draft_device.name != planner.device.name:
        devices.append(planner.draft_device)
    for device in devices:
        rows.append(
            (
                "device",
                f"{device.name}: {device.label}, {size_words(device.memory_bytes)}, "
                f"{planner.dtype}",
            )
        )
    return columns(rows)


def _plan_lines(plan: VideoPlan) -> list[str]:
    info, memory = plan.info, plan.memory
    length = "?" if info.duration_s is None else f"{info.duration_s:.1f} s"
    seen = f", {plan.draft_visual_tokens} for the draft" if memory.draft else ""
    rows = [
        ("video", f"{length}, {info.width}x{info.height}, {info.codec}"),
        *_window_rows(plan.windows),
        ("size", f"{plan.width}x{plan.height} pixels"),
        ("tokens", f"{plan.visual_tokens} visual{seen}, about {plan.prompt_tokens} in the prompt"),
        ("target", _memory_words(memory.target)),
    ]
    if memory.draft:
        rows.append(("draft", _memory_words(memory.draft)))
    verdict = "fits" if plan.fits else "does not fit"
    rows += [
        ("working", f"{size_words(memory.working)} frames and activations, at the fullest moment"),
        ("process", size_words(memory.process)),
        ("memory", f"about {size_words(memory.total)} in all: {verdict}"),
    ]
    return columns(rows)


def _window_rows(windows: Sequence[Sequence[float]]) -> list[tuple[str, str]]:
    if len(windows) > _MOST_WINDOWS:
        frames = [len(times) for times in windows]
        return [
            ("windows", f"{len(windows)} of up to {max(frames)} frames, {sum(frames)} in all"),
        ]
    return [("window", f"{len(times)} frames at {_times(times)}") for times in windows]


def _memory_words(memory: ModelMemory) -> str:
    copies = f"{size_words(memory.copies)} packed copies, " if memory.copies else ""
    return (
        f"{size_words(memory.weights)} weights, {copies}"
        f"{size_words(memory.keys_values)} keys and values"
    )


def _times(times: Sequence[float]) -> str:
    if len(times) == 1:
        return f"{times[0]:.2f} s"
    step = (times[-1] - times[0]) / (len(times) - 1)
    return f"{times[0]:.2f} to {times[-1]:.2f} s, one every {step:.3g} s"
