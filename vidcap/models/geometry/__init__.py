"""The torch-free half of each model family: frame sizes, token counts, placeholder tokens.

:func:`read_geometry` looks at a checkpoint's configuration files only, so the video reader and the
planner can work before torch is imported. A new family is a function in `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vidcap.errors import ModelError
from vidcap.models.geometry.base import Geometry, Placeholders
from vidcap.models.geometry.files import read_model_config, read_video_processor_config
from vidcap.models.geometry.qwen_vl import QwenVLGeometry, qwen_vl_geometry

__all__ = [
    "FAMILIES",
    "Geometry",
    "Placeholders",
    "QwenVLGeometry",
    "make_geometry",
    "read_geometry",
]

#: What makes the geometry of each ``model_type``, from its configuration, that of its video
#: processor and a name for messages.
FAMILIES: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any], str], Geometry]] = {
    "qwen2_vl": qwen_vl_geometry,
    "qwen2_5_vl": qwen_vl_geometry,
}


def read_geometry(model_dir: Path) -> Geometry:
    """The geometry of the checkpoint in a local folder.

    Raises:
        ModelError: the folder holds no checkpoint, a broken one, or one of an unknown family.
    """
    config = read_model_config(model_dir)
    _check_family(config, str(model_dir))
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
    return FAMILIES[_check_family(config, where)](config, processor, where)


def _check_family(config: Mapping[str, Any], where: str) -> str:
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise ModelError(
            f"unsupported model type '{model_type}' in {where}",
            hint="supported types: " + ", ".join(sorted(FAMILIES)),
        )
    return model_type
