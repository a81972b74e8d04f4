"""``--ray``: what it makes of the settings, and the workers that it starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from vidcap.cli import runtime
from vidcap.cli.console import Console
from vidcap.errors import UsageError
from vidcap.settings import ModelSettings

if TYPE_CHECKING:
    from vidcap.batch.ray_pool import RayPool
    from vidcap.batch.slots import Slots
    from vidcap.captioner import Captioner

#: What ``--ray`` alone means.
DEFAULT_ADDRESS = "auto"

_ADDRESS = re.compile(r"auto|local|(\[[\da-fA-F:.]+\]|[\w.-]+):\d+")


def with_ray_address(words: Sequence[str]) -> list[str]:
    """The words of a command line where ``--ray`` has a value.

    The value may be left out, which the parser does not know: the next word belongs to ``--ray``
    where it is an address, and is an INPUT where it is none.
    """
    given: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*given, word, *rest]
        if word == "--ray":
            takes = bool(rest) and _ADDRESS.fullmatch(rest[0]) is not None
            word = f"--ray={rest.pop(0) if takes else DEFAULT_ADDRESS}"
        given.append(word)
    return given


def check_spread(address: str, model: ModelSettings, inputs: Sequence[str]) -> None:
    """Finds what keeps a run from a cluster, before anything is started.

    Raises:
        UsageError: the options contradict each other.
        ModelError: Ray is not installed.
    """
    from vidcap.batch.ray_pool import check_ray

    if _ADDRESS.fullmatch(address) is None:
        raise UsageError(f"--ray takes auto, local or HOST:PORT, not '{address}'")
    if "-" in inputs:
        raise UsageError("'-' and --ray contradict each other: workers read files")
    if model.tensor_parallel > 1:
        raise UsageError("--ray gives each worker one device, --tensor-parallel needs several")
    for device in (model.device, model.draft_device or "auto"):
        if device not in ("auto", "cpu", "cuda"):
            raise UsageError(f"--ray gives each worker a device of its own, not '{device}'")
    check_ray()


def open_pool(address: str, captioner: Captioner, console: Console) -> RayPool:
    """Workers with the pair and the settings of a captioner.

    Raises:
        ModelError: there is no cluster, or no room in it.
    """
    from vidcap.batch.ray_pool import RayPool
    from vidcap.batch.slots import worker_need

    model = captioner.model
    pool = RayPool(
        address,
        device=model.device,
        threads=model.threads,
        need=worker_need(model, needs_draft=captioner.speculation.needs_draft),
        recipe=partial(_recipe, captioner),
    )
    slots = pool.slots
    words = f"{slots.cpus} CPU{'s' if slots.cpus > 1 else ''}{' and a GPU' if slots.gpus else ''}"
    workers = f"{slots.count} Ray workers" if slots.count > 1 else "1 Ray worker"
    console.detail(f"up to {workers} with {words} each")
    return pool


def _recipe(captioner: Captioner, slots: Slots) -> Callable[[], Captioner]:
    """Makes a captioner like this one in a worker, from what is on the worker's machine."""
    model = replace(
        captioner.model,
        device="cuda" if slots.gpus else "cpu",
        draft_device="cpu" if captioner.model.draft_device == "cpu" else None,
        threads=slots.cpus,
        # The pair has been fetched to this machine, with a word; nothing is fetched silently.
        offline=True,
    )
    return partial(
        runtime.make_captioner, model, captioner.video, captioner.generation, captioner.speculation
    )
