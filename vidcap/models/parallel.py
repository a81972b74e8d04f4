"""Tensor parallelism: what is needed for it, and what each rank holds. Imports no torch.

Every layer of the target is cut over ranks, processes with a GPU each (or, on a CPU, with a share
of its threads): heads of attention with their keys and values, rows of the MLP. All of them compute
at the same time and add up their results twice a layer. The first rank is the process that the user
started; it has everything else, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from vidcap.errors import ModelError, UsageError
from vidcap.models.facts import ModelFacts
from vidcap.models.machine import Device, cpu, cuda_devices, find_devices
from vidcap.settings import ModelSettings

#: Set by torchrun in the processes that it starts.
_STARTED_BY_TORCHRUN = "TORCHELASTIC_RUN_ID"


def devices_of(
    settings: ModelSettings, find: Callable[[str], tuple[Device, ...]] = find_devices
) -> tuple[Device, ...]:
    """The devices of the target: one, several that it is spread over, or one of each rank.

    On a CPU all ranks share the one that there is.

    Args:
        settings: device and number of ranks.
        find: what finds the devices of a name.

    Raises:
        ModelError: there are no such devices here.
        UsageError: they are none for that many ranks.
    """
    count, name = settings.tensor_parallel, settings.device
    if count == 1:
        return find(name)
    if name == "cpu":
        return (cpu(),)
    if name == "auto":
        found = tuple(cuda_devices()[:count]) or (cpu(),)
        if found[0].name != "cpu" and len(found) < count:
            raise ModelError(f"--tensor-parallel {count}: this machine has {_gpus(len(found))}")
        return found
    found = find(name)
    if found[-1].name == "cpu":
        raise UsageError(
            f"--tensor-parallel leaves no layers in main memory, as --device {name} would"
        )
    if len(found) != count:
        raise UsageError(
            f"--tensor-parallel {count} needs {count} GPUs, --device {name} names {len(found)}",
            hint="leave --device out to take the first ones",
        )
    return found


def check_parallel(settings: ModelSettings, environment: Mapping[str, str] = os.environ) -> None:
    """Find what contradicts ranks, before anything is loaded.

    Raises:
        UsageError: something does.
    """
    if settings.tensor_parallel == 1:
        return
    if settings.quantize != "none":
        raise UsageError("--quantize and --tensor-parallel contradict each other")
    if _STARTED_BY_TORCHRUN in environment:
        raise UsageError(
            "--tensor-parallel starts its processes itself", hint="run vidcap without torchrun"
        )


def check_divisible(facts: ModelFacts, count: int, name: str) -> None:
    """Make sure that a target can be cut over `count` ranks.

    Raises:
        ModelError: its heads or MLPs do not come out even, or its weights are quantized.
    """
    if count == 1:
        return
    if facts.quantization is not None:
        raise ModelError(
            f"{name} is quantized by {facts.quantization}: such a model cannot be cut for "
            "--tensor-parallel"
        )
    if not divides(facts, count):
        possible = [str(each) for each in range(2, facts.kv_heads + 1) if divides(facts, each)]
        raise ModelError(
            f"--tensor-parallel {count}: {name} has {facts.heads} heads, {facts.kv_heads} of keys "
            f"and values, and {facts.inner} rows in its MLPs, which {count} does not divide",
            hint=f"possible: {', '.join(possible)}" if possible else "this model cannot be cut",
        )


def divides(facts: ModelFacts, count: int) -> bool:
    """Whether every rank gets as many heads and rows as the others."""
    return not any(size % count for size in (facts.heads, facts.kv_heads, facts.inner))


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
