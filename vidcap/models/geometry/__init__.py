"""The torch-free half of each model family: frame sizes, token counts, placeholder tokens.

:func:`read_geometry` looks at a checkpoint's configuration files only, so the video reader and the
planner can work before torch is imported. `FAMILIES` is the one list of supported families.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vidcap.errors import ModelError
from vidcap.models.geometry.base import Geometry, Placeholders
from vidcap.models.geometry.files import read_model_config, read_video_processor_config
from vidcap.models.geometry.llava_onevision import (
    LlavaOnevisionGeometry,
    llava_onevision_geometry,
)
from vidcap.models.geometry.qwen3_vl import Qwen3VLGeometry, qwen3_vl_geometry
from vidcap.models.geometry.qwen_vl import QwenVLGeometry, qwen_vl_geometry

__all__ = [
    "FAMILIES",
    "Family",
    "Geometry",
    "LlavaOnevisionGeometry",
    "Placeholders",
    "Qwen3VLGeometry",
    "QwenVLGeometry",
    "check_family",
    "make_geometry",
    "read_geometry",
]


@dataclass(frozen=True, slots=True)
class Family:
    """A supported model family.

    Attributes:
        label: what people call it.
        geometry: makes the geometry of a checkpoint from its configuration, that of its video
            processor and a name for messages.
        adapter: ``module:class`` of the adapter, which imports torch.
    """

    label: str
    geometry: Callable[[Mapping[str, Any], Mapping[str, Any], str], Geometry]
    adapter: str


#: Families by ``model_type``.
FAMILIES: dict[str, Family] = {
    "qwen2_vl": Family("Qwen2-VL", qwen_vl_geometry, "vidcap.models.qwen2_vl:Qwen2VL"),
    "qwen2_5_vl": Family("Qwen2.5-VL", qwen_vl_geometry, "vidcap.models.qwen2_5_vl:Qwen25VL"),
    "qwen3_vl": Family("Qwen3-VL", qwen3_vl_geometry, "vidcap.models.qwen3_vl:Qwen3VL"),
    "llava_onevision": Family(
        "LLaVA-OneVision",
        llava_onevision_geometry,
        "vidcap.models.llava_onevision:LlavaOnevision",
    ),
}


def read_geometry(model_dir: Path) -> Geometry:
    """The geometry of the checkpoint in a local folder.

    Raises:
        ModelError: the folder holds no checkpoint, a broken one, or one of an unknown family.
    """
    config = read_model_config(model_dir)
    check_family(config, str(model_dir))
    return make_geometry(config, read_video_processor_config(model_dir), str(model_dir))


def make_geometry(config: Mapping[str, Any], processor: Mapping[str, Any], where: str) -> Geometry:
    """The geometry that a checkpoint's configuration describes.

    Args:
        config: the content of its ``config.json``.
        processor: the settings of its video processor.
        where: its folder or name, for messages.

    Raises:
        ModelError: the family is unknown, or values are broken.
    """
    return check_family(config, where).geometry(config, processor, where)


def check_family(config: Mapping[str, Any], where: str) -> Family:
    """The family of a checkpoint.

    Args:
        config: the content of its ``config.json``.
        where: its folder or name, for messages.

    Raises:
        ModelError: it is not supported; the hint lists what is.
    """
    model_type = config.get("model_type")
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        raise ModelError(
            f"unsupported model type '{model_type}' in {where}",
            hint="supported types: " + ", ".join(sorted(FAMILIES)),
        )
    return family
