"""The devices and number formats that torch gets, and what goes where on them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vidcap.errors import ModelError, UsageError
from vidcap.models.facts import read_facts
from vidcap.models.machine import Device, find_devices
from vidcap.models.pair import PairFolders
from vidcap.models.parallel import check_divisible, check_parallel, devices_of
from vidcap.models.placement import Placement, place, usable
from vidcap.models.released import native_bf16
from vidcap.settings import ModelSettings


def target_placement(folders: PairFolders, settings: ModelSettings) -> Placement:
    """Where the target lies, by what is free on the devices now.

    Raises:
        ModelError: no such device, or no room for the target on several ones.
        UsageError: a device name torch does not know, or settings that contradict each other.
    """
    if settings.tensor_parallel > 1:
        return _ranks_placement(folders, settings)
    if settings.device != "auto" and "," not in settings.device:
        return Placement(str(torch_device(settings.device)))
    devices = find_devices(settings.device)
    if devices[0].name.startswith("cuda") and not torch.cuda.is_available():
        if settings.device != "auto":
            torch_device(devices[0].name)
        return Placement("cpu")
    if len(devices) == 1:
        return Placement(devices[0].name)
    own = find_devices(settings.draft_device)[0] if settings.draft_device else None
    target = read_facts(folders.target)
    draft = read_facts(folders.draft) if folders.draft else None
    found = place(settings, target, draft, devices, draft_device=own, free=free_bytes)
    if found is None:
        names = ", ".join(device.name for device in devices)
        raise ModelError(
            f"{folders.target_name} has no room on {names}",
            hint="take a smaller pair or more GPUs; layers that are left over stay in main memory "
            "where the list ends with cpu; `vidcap plan` says what a video needs",
        )
    if found.layers and target.quantization is not None:
        raise ModelError(
            f"{folders.target_name} is quantized by {target.quantization}: such a model is not "
            f"spread, and no device has room for all of it",
            hint="name one device with --device to try nevertheless",
        )
    if found.kept_elsewhere and settings.quantize != "none":
        raise ModelError(
            f"--quantize: {found.kept_elsewhere} layers of {folders.target_name} have no room on "
            "the GPUs before they are packed",
            hint="take a smaller pair or more GPUs",
        )
    return found


def _ranks_placement(folders: PairFolders, settings: ModelSettings) -> Placement:
    """Where the ranks of a target lie; whether there is room for them shows when they load."""
    check_parallel(settings)
    names = [device.name for device in devices_of(settings)]
    count = settings.tensor_parallel
    check_divisible(read_facts(folders.target), count, folders.target_name)
    if names[0] != "cpu":
        torch_device(names[0])
    elif torch.cuda.is_available():
        # transformers puts ranks on GPUs where there are any.
        raise UsageError(
            "--tensor-parallel on the CPU needs GPUs to be out of sight",
            hint="set CUDA_VISIBLE_DEVICES to nothing",
        )
    ranks = tuple(names) if len(names) == count else (names[0],) * count
    return Placement(names[0], ranks=ranks)


def free_bytes(device: Device) -> int:
    """Bytes of a device that models can have, less what other processes have now on a GPU."""
    if not device.name.startswith("cuda"):
        return usable(device)
    free, _ = torch.cuda.mem_get_info(torch.device(device.name))
    return min(free, usable(device))


def device_map(model: nn.Module, placement: Placement) -> dict[str, str | int]:
    """What ``from_pretrained`` of transformers takes as ``device_map``.

    Args:
        model: the released model, its weights need not be there.
        placement: where its parts lie.

    Returns:
        device by name of a part: every decoder layer, and what lies beside them as whole as can be.
    """
    layers: Any = model.model.language_model.layers  # type: ignore[union-attr]
    places: dict[str, str | int] = {}
    _map_parts(model, "", layers, placement, places)
    return places


def _map_parts(
    module: nn.Module,
    prefix: str,
    layers: nn.Module,
    placement: Placement,
    places: dict[str, str | int],
) -> None:
    first = _map_name(placement.first)
    own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    places.update({prefix + name: first for name, _ in own})
    for name, part in module.named_children():
        if part is layers:
            for index, device in enumerate(placement.layers):
                places[f"{prefix}{name}.{index}"] = _map_name(device)
        elif any(inner is layers for inner in part.modules()):
            _map_parts(part, f"{prefix}{name}.", layers, placement, places)
        else:
            places[prefix + name] = first


def _map_name(device: str) -> str | int:
    # By number, so that the lowest one is taken to run what is kept elsewhere.
    return int(device.partition(":")[2] or 0) if device.startswith("cuda") else device


def torch_device(name: str) -> torch.device:
    """One device by its name.

    Raises:
        ModelError: there is no such device here.
        UsageError: it is none that vidcap runs on.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"no device '{name}'", hint="for example cpu, cuda or cuda:1") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(f"device '{name}' was asked for, but torch sees no CUDA device")
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"device '{name}' is not supported", hint="use cpu or cuda")
    return device


def torch_dtype(name: str, device: torch.device) -> torch.dtype:
    """A number format by its name; ``auto`` is bfloat16 where the device has it."""
    if name == "auto":
        return torch.bfloat16 if native_bf16(device) else torch.float32
    dtype: torch.dtype = getattr(torch, name)
    return dtype
