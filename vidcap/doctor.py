"""What this installation and machine are like, for bug reports."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

from vidcap import __version__
from vidcap.errors import VidcapError
from vidcap.models.catalogue import preset_states
from vidcap.models.hub import cache_folder
from vidcap.models.machine import Device, cpu, cuda_devices
from vidcap.models.pair import find_pair
from vidcap.settings import ModelSettings

_PACKAGES = (
    "torch",
    "torchvision",
    "transformers",
    "accelerate",
    "safetensors",
    "huggingface-hub",
    "qwen-vl-utils",
    "numpy",
    "av",
    "typer",
    "rich",
)
_OPTIONAL = ("flash-attn", "torchao", "ray")

#: Variables that change how vidcap runs; none of them holds a secret.
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "LC_ALL",
    "LANG",
    "MKL_NUM_THREADS",
    "NO_COLOR",
    "OMP_NUM_THREADS",
    "TRANSFORMERS_OFFLINE",
)


def examine(config_file: Path) -> dict[str, Any]:
    """Everything that helps to understand a failure, as JSON types.

    Args:
        config_file: where settings are read from.

    Returns:
        ``problems`` is a list of sentences, empty where all is well; the other keys are parts of
        the report. What fails is told, never raised.
    """
    problems: list[str] = []
    report = {
        "vidcap": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "packages": _packages(problems),
        "video": _video_libraries(problems),
        "torch": _torch_state(problems),
        "devices": [_device(device, problems) for device in (cpu(), *cuda_devices())],
        "places": _places(config_file, problems),
        "config": {"file": str(config_file), "exists": config_file.is_file()},
        "models": _models(problems),
        "demo": _demo_pair(problems),
        "environment": _environment(),
    }
    return report | {"problems": problems}


def _packages(problems: list[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in (*_PACKAGES, *_OPTIONAL):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
            if name in _PACKAGES:
                problems.append(f"package {name} is missing")
    return found


def _video_libraries(problems: list[str]) -> dict[str, str]:
    try:
        import av
    except ImportError as error:
        problems.append(f"PyAV cannot be imported: {error}")
        return {}
    versions = av.library_versions
    return {name: ".".join(map(str, version)) for name, version in sorted(versions.items())}


def _torch_state(problems: list[str]) -> dict[str, Any]:
    try:
        import torch
    except (ImportError, OSError) as error:
        problems.append(f"torch cannot be imported: {error}")
        return {}
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "usable_cores": len(affinity(0)) if affinity else os.cpu_count(),
        "cuda": torch.version.cuda,
        "cuda_available": torch.cuda.is_available(),
    }


def _device(device: Device, problems: list[str]) -> dict[str, Any]:
    return {
        "name": device.name,
        "label": device.label,
        "memory_bytes": device.memory_bytes,
        "bf16": device.bf16,
        "attention": _attention_kernels(device, problems),
    }


def _attention_kernels(device: Device, problems: list[str]) -> dict[str, bool]:
    """Which kernels of torch work there, found by running each on a few numbers."""
    try:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention
    except (ImportError, OSError):
        return {}
    works: dict[str, bool] = {}
    dtype = torch.bfloat16 if device.bf16 else torch.float32
    for name in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):
        try:
            # A kernel that cannot run says so in warnings as well.
            with warnings.catch_warnings(), sdpa_kernel(getattr(SDPBackend, name)):
                warnings.simplefilter("ignore")
                query = torch.zeros(1, 2, 16, 64, dtype=dtype, device=device.name)
                scaled_dot_product_attention(query, query, query)
            works[name.removesuffix("_ATTENTION").lower()] = True
        except (RuntimeError, AssertionError):
            works[name.removesuffix("_ATTENTION").lower()] = False
    if not any(works.values()):
        problems.append(f"torch cannot compute on {device.name}")
    return works


def _places(config_file: Path, problems: list[str]) -> list[dict[str, Any]]:
    places = []
    for what, path in (
        ("model cache", cache_folder()),
        ("temporary files", Path(tempfile.gettempdir())),
        ("configuration", config_file.parent),
        ("current folder", Path.cwd()),
    ):
        writable = _is_writable(path)
        places.append({"what": what, "path": str(path), "writable": writable})
        if not writable and what in ("model cache", "temporary files"):
            problems.append(f"{what}: {path} is not writable")
    return places


def _is_writable(path: Path) -> bool:
    """Whether files can be made there, or the folder itself where it does not exist yet."""
    place = next((item for item in (path, *path.parents) if item.exists()), None)
    return place is not None and place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def _models(problems: list[str]) -> dict[str, Any]:
    cache = cache_folder()
    try:
        cached = [state.preset.name for state in preset_states() if state.cached]
    except VidcapError as error:
        problems.append(error.message)
        cached = []
    return {
        "cache": str(cache),
        "cache_bytes": sum(
            item.stat().st_size for item in cache.glob("models--*/blobs/*") if item.is_file()
        ),
        "cached_pairs": cached,
    }


def _demo_pair(problems: list[str]) -> dict[str, Any]:
    """Whether the shipped pair is there and can be loaded."""
    settings = ModelSettings(pair="demo")
    begin = time.perf_counter()
    try:
        folders = find_pair(settings, needs_draft=True)
        from vidcap.models.loading import load_pair_folders

        pair = load_pair_folders(folders, settings)
    except (VidcapError, ImportError, OSError, RuntimeError) as error:
        problems.append(f"the demo pair cannot be loaded: {error}")
        return {"loads": False, "error": str(error)}
    return {
        "loads": True,
        "seconds": round(time.perf_counter() - begin, 3),
        "device": pair.device,
        "dtype": pair.dtype,
        "attention": pair.attention,
    }


def _environment() -> dict[str, str]:
    names = [*_VARIABLES, *sorted(name for name in os.environ if name.startswith("VIDCAP_"))]
    return {name: os.environ[name] for name in names if name in os.environ}
