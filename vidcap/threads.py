"""How the cores are shared between the models and the decoder.

Two thread pools on the same cores slow each other many times over, so what runs at the same time
never has more threads than there are cores.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

#: With fewer cores, what a decoder beside the models takes away is more than it saves.
_LEAST_FOR_BOTH = 4


@dataclass(frozen=True, slots=True)
class ThreadShares:
    """Threads for what runs at the same time.

    Attributes:
        models: of torch.
        decoder: of the video decoder while the models run, 0 where it has to wait for them.
    """

    models: int
    decoder: int


def available_threads(asked: int | None = None) -> int:
    """Threads that may run at once: as many as were asked for, else as ``OMP_NUM_THREADS`` says, as
    for every program that computes with torch, else as this process has cores."""
    if asked is not None:
        return asked
    told = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if told.isdecimal() and int(told):
        return int(told)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def can_share(total: int) -> bool:
    """Whether `total` threads are enough to decode while the models run."""
    return total >= _LEAST_FOR_BOTH


def share_threads(total: int, *, ahead: bool, on_cpu: bool) -> ThreadShares:
    """Who gets how many.

    Args:
        total: threads in all.
        ahead: whether the next video is to be decoded while the models run. On a CPU the decoder
            then gets one thread; beside a GPU, where the models hardly need any, half of them.
        on_cpu: whether the models run on the CPU.
    """
    if not ahead or not can_share(total):
        return ThreadShares(models=total, decoder=0)
    decoder = 1 if on_cpu else total // 2
    return ThreadShares(models=total - decoder, decoder=decoder)
