"""The devices of this machine and their memory, found without torch.

torch takes seconds to import; choosing a pair and planning a run must not wait for it. NVIDIA GPUs
are asked through the driver's own library, which honours ``CUDA_VISIBLE_DEVICES`` as torch does.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from vidcap.errors import ModelError, UsageError

_CPU_INFO = Path("/proc/cpuinfo")
_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

#: ``CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`` of the CUDA driver API.
_CAPABILITY_MAJOR = 75

#: Compute capability from which NVIDIA GPUs compute in bfloat16 themselves (Ampere).
_BF16_CAPABILITY = 8


@dataclass(frozen=True, slots=True)
class Device:
    """A place where a model can run.

    Attributes:
        name: as torch names it: ``cpu``, ``cuda:0``.
        label: what it is called by its maker.
        memory_bytes: all of its memory, None where that cannot be told.
        bf16: whether it computes in bfloat16 itself.
    """

    name: str
    label: str
    memory_bytes: int | None
    bf16: bool


def find_devices(name: str) -> tuple[Device, ...]:
    """The devices that ``--device`` means.

    Args:
        name: ``auto``, a device, or GPUs joined by commas, ``cpu`` behind them.

    Returns:
        one, or several for a model to be spread over; the CPU behind GPUs may keep layers that
        they have no room for.

    Raises:
        ModelError: there is no such device here.
        UsageError: it is none that vidcap runs on.
    """
    if name == "auto":
        return (*cuda_devices(), cpu())
    names = name.split(",")
    found = tuple(find_device(each) for each in names)
    if len({device.name for device in found}) < len(found) or "cpu" in names[:-1]:
        raise UsageError(
            f"--device {name}: a list names each GPU once, and the CPU behind them",
            hint="for example cuda:0,cuda:1 or cuda:0,cpu",
        )
    return found


def find_device(name: str) -> Device:
    """One device.

    Args:
        name: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    Raises:
        ModelError: there is no such device here.
        UsageError: it is none that vidcap runs on.
    """
    if name == "cpu":
        return cpu()
    if name != "auto" and not re.fullmatch(r"cuda(:\d+)?", name):
        raise UsageError(f"device '{name}' is not supported", hint="use cpu, cuda or cuda:N")
    gpus = cuda_devices()
    if name == "auto":
        return gpus[0] if gpus else cpu()
    index = int(name.partition(":")[2] or 0)
    if index >= len(gpus):
        raise ModelError(f"device '{name}' was asked for, but there is no such CUDA device")
    return gpus[index]


def joined(devices: Sequence[Device]) -> Device:
    """Several devices that hold one model together, as one."""
    if len(devices) == 1:
        return devices[0]
    counts = Counter(device.label for device in devices)
    sizes = [device.memory_bytes for device in devices if device.memory_bytes is not None]
    return Device(
        ",".join(device.name for device in devices),
        ", ".join(f"{count} x {label}" for label, count in counts.items()),
        sum(sizes) if len(sizes) == len(devices) else None,
        all(device.bf16 for device in devices),
    )


def cpu() -> Device:
    """The processor, with the memory that this process may use."""
    info = _read(_CPU_INFO)
    model = re.search(r"^model name\s*:\s*(.+)$", info, re.MULTILINE)
    label = model[1].strip() if model else platform.processor() or platform.machine()
    flags = re.search(r"^flags\s*:\s*(.+)$", info, re.MULTILINE)
    known = set(flags[1].split()) if flags else set()
    return Device("cpu", label, _usable_memory(), bool(known & {"avx512_bf16", "amx_bf16"}))


def cuda_devices() -> list[Device]:
    """NVIDIA GPUs that torch will see; none where torch was built without CUDA."""
    if not _torch_has_cuda():
        return []
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        count = ctypes.c_int()
        if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
            return []
        return [_cuda_device(driver, index) for index in range(count.value)]
    except (OSError, AttributeError):
        return []


def _cuda_device(driver: Any, index: int) -> Device:
    handle, major = ctypes.c_int(), ctypes.c_int()
    total = ctypes.c_size_t()
    label = ctypes.create_string_buffer(256)
    driver.cuDeviceGet(ctypes.byref(handle), index)
    driver.cuDeviceGetName(label, len(label), handle)
    driver.cuDeviceTotalMem_v2(ctypes.byref(total), handle)
    driver.cuDeviceGetAttribute(ctypes.byref(major), _CAPABILITY_MAJOR, handle)
    return Device(
        f"cuda:{index}",
        label.value.decode("utf-8", "replace"),
        total.value or None,
        major.value >= _BF16_CAPABILITY,
    )


def _torch_has_cuda() -> bool:
    try:
        return not metadata.version("torch").endswith("+cpu")
    except metadata.PackageNotFoundError:
        return False


def _usable_memory() -> int | None:
    """Bytes of memory, or of the share of it that a container gets."""
    try:
        installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
    limits = [_read(path).strip() for path in _CGROUP_LIMITS]
    return min([installed, *(int(limit) for limit in limits if limit.isdecimal())])


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
