"""How many workers the machines of a cluster have room for, and what each of them gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vidcap.errors import ModelError
from vidcap.models.machine import find_device
from vidcap.models.memory import form_of, nominal_need
from vidcap.models.pair import choose_pair, model_facts, models_of
from vidcap.settings import ModelSettings

Resources = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Slots:
    """Places for workers.

    Attributes:
        count: of workers.
        cpus: cores of each, which are also its threads.
        gpus: of each, 1 or 0.
        memory: bytes of main memory that each is promised, 0 for no promise.
    """

    count: int
    cpus: int
    gpus: int
    memory: int = 0


def find_slots(machines: Sequence[Resources], device: str, threads: int | None, need: int) -> Slots:
    """One place per GPU, or per CPU where there are no GPUs or the device is the CPU.

    Args:
        machines: resources of each, as Ray names them: ``CPU``, ``GPU`` and ``memory`` (bytes).
        device: ``auto``, ``cpu`` or ``cuda``.
        threads: CPUs of each worker, None for one, or beside a GPU for its share of the cores.
        need: bytes that a worker on a CPU needs, so that not more of them start on a machine than
            its memory holds; 0 where that is not known.

    Raises:
        ModelError: there is no place.
    """
    with_gpu = [machine for machine in machines if machine.get("GPU", 0) >= 1]
    if device == "cuda" or (device == "auto" and with_gpu):
        shares = [machine.get("CPU", 0) // machine["GPU"] for machine in with_gpu]
        cpus = threads or max(1, int(min(shares, default=1)))
        slots = Slots(sum(_room(each, cpus, 1, 0) for each in with_gpu), cpus, 1)
    else:
        cpus = threads or 1
        slots = Slots(sum(_room(each, cpus, 0, need) for each in machines), cpus, 0, need)
    if not slots.count:
        raise ModelError("no machine of the Ray cluster has room for a worker", hint=_wants(slots))
    return slots


def worker_need(model: ModelSettings, *, needs_draft: bool) -> int:
    """Bytes that a worker with this pair needs for a video of ordinary length on a CPU.

    Raises:
        ModelError: the sizes of the pair are not known.
    """
    preset = choose_pair(model)
    if preset is None:
        return 0
    target, draft = models_of(preset, model, needs_draft=needs_draft)
    return nominal_need(
        model_facts(target, model.revision),
        model_facts(draft, model.revision) if draft else None,
        form_of(model, find_device("cpu")),
    )


def _room(machine: Resources, cpus: int, gpus: int, memory: int) -> int:
    """Workers that a machine has room for."""
    wanted = {"CPU": cpus, "GPU": gpus, "memory": memory}
    return int(min(machine.get(name, 0) // most for name, most in wanted.items() if most))


def _wants(slots: Slots) -> str:
    words = [f"{slots.cpus} CPU{'s' if slots.cpus > 1 else ''}"]
    if slots.gpus:
        words.append("a GPU")
    if slots.memory:
        words.append(f"{slots.memory / 1e9:.1f} GB of memory")
    return f"each needs {' and '.join(words)}"
