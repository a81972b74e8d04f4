"""The machine that a bench ran on, and how much memory a stretch of it took."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from vidcap import __version__
from vidcap.models.machine import cpu, cuda_devices
from vidcap.threads import available_threads

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def describe_machine(threads: int | None) -> dict[str, Any]:
    """Processor, memory in bytes that this process may use, and versions, as JSON types.

    Args:
        threads: the number that was asked for, None for all.
    """
    processor = cpu()
    return {
        "cpu": processor.label,
        "cores": os.cpu_count(),
        "threads": available_threads(threads),
        "memory_bytes": processor.memory_bytes,
        "gpus": [gpu.label for gpu in cuda_devices()],
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "transformers": metadata.version("transformers"),
        "vidcap": __version__,
    }


class PeakMemory:
    """The most memory in use since it was made.

    On CUDA devices what torch allocated, summed over the devices. Elsewhere the resident size of
    the process, which only Linux tells for a stretch of time.
    """

    def __init__(self, device: str):
        """Args: device: of the target, as torch names it."""
        self._cuda = device.startswith("cuda")
        self._known = self._cuda or _reset_resident_peak()
        if self._cuda:
            for index in range(torch.cuda.device_count()):
                torch.cuda.reset_peak_memory_stats(index)

    def read(self) -> int | None:
        """Bytes; None where it cannot be told."""
        if not self._known:
            return None
        if self._cuda:
            devices = range(torch.cuda.device_count())
            return sum(torch.cuda.max_memory_allocated(index) for index in devices)
        match = re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
        return int(match[1]) * 1024 if match else None


def _reset_resident_peak() -> bool:
    try:
        # proc(5): 5 resets the peak resident set size to the current one.
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True
