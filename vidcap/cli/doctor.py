"""``vidcap doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from vidcap.cli import runtime
from vidcap.cli.answers import make_console
from vidcap.cli.config import file_in_use
from vidcap.cli.options import FactsFormatOptions, MessageOptions
from vidcap.cli.tables import columns, print_facts, size_words

#: Nothing can run: as for any other failure of that kind.
_EXIT_BROKEN = 3


def doctor(context: typer.Context, format: FactsFormatOptions, messages: MessageOptions) -> int:
    """Examine installation and machine, for bug reports.

    Versions, devices, attention kernels, threads, the cache, writable places, the configuration
    file, and whether the demo pair can be loaded. Ends with 3 where something is broken.
    """
    console = make_console(messages)
    runtime.hush_libraries(console)
    console.busy("examining")
    try:
        from vidcap.doctor import examine

        report = examine(file_in_use(context))
    finally:
        console.still()
    print_facts(format.format, report, _lines(report))
    return _EXIT_BROKEN if report["problems"] else 0


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield from columns(list(_rows(report)))
    yield ""
    if report["problems"]:
        yield from (f"problem: {problem}" for problem in report["problems"])
    else:
        yield "no problems found"


def _rows(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in ("vidcap", "python", "platform"):
        yield key, report[key]
    for name, version in report["packages"].items():
        yield name, version or "not installed"
    for name, version in report["video"].items():
        yield name, version
    yield from _torch_rows(report["torch"])
    for device in report["devices"]:
        yield from _device_rows(device)
    for place in report["places"]:
        yield place["what"], f"{place['path']} ({_yes(place['writable'], 'not ')}writable)"
    config, models = report["config"], report["models"]
    yield "config file", config["file"] + ("" if config["exists"] else " (does not exist)")
    yield "cached models", size_words(models["cache_bytes"])
    yield "cached pairs", ", ".join(models["cached_pairs"]) or "none"
    yield "demo pair", _demo_words(report["demo"])
    for name, value in report["environment"].items():
        yield name, value


def _torch_rows(torch: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if torch:
        usable = torch["usable_cores"]
        yield "threads", f"{torch['threads']} of torch, {usable} usable of {torch['cores']} cores"
        available = _yes(torch["cuda_available"], "not ")
        yield "cuda", f"{torch['cuda']} ({available}available)" if torch["cuda"] else "none"


def _device_rows(device: dict[str, Any]) -> Iterator[tuple[str, str]]:
    memory = size_words(device["memory_bytes"])
    bf16 = _yes(device["bf16"], "no ")
    yield "device", f"{device['name']}: {device['label']}, {memory}, {bf16}native bfloat16"
    kernels = [name for name, works in device["attention"].items() if works]
    yield "attention", ", ".join(kernels) or "none"


def _demo_words(demo: dict[str, Any]) -> str:
    if not demo["loads"]:
        return f"cannot be loaded: {demo['error']}"
    return f"loads in {demo['seconds']:.1f} s on {demo['device']} as {demo['dtype']}"


def _yes(condition: bool, otherwise: str) -> str:
    return "" if condition else otherwise
