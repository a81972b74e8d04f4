"""The torch-free half of each model family: frame sizes, token counts, placeholder tokens.

:func:`read_geometry` looks at a checkpoint's configuration files only, so the video reader and the
planner can work before torch is imported. A new family is a reader function in `READERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vidcap.errors import ModelError
from vidcap.models.geometry.base import Geometry, Placeholders
from vidcap.models.geometry.files import read_model_config
from vidcap.models.geometry.qwen_vl import QwenVLGeometry, read_qwen_vl

__all__ = ["READERS", "Geometry", "Placeholders", "QwenVLGeometry", "read_geometry"]

#: The reader of each ``model_type``.
READERS: dict[str, Callable[[Mapping[str, Any], Path], Geometry]] = {
    "qwen2_vl": read_qwen_vl,
    "qwen2_5_vl": read_qwen_vl,
}


def read_geometry(model_dir: Path) -> Geometry:
    """The geometry of the checkpoint in a local folder.

    Raises:
        ModelError: the folder holds no checkpoint, a broken one, or one of an unknown family.
    """
    config = read_model_config(model_dir)
    model_type = config.get("model_type")
    reader = READERS.get(model_type) if isinstance(model_type, str) else None
    if reader is None:
        raise ModelError(
            f"unsupported model type '{model_type}' in {model_dir}",
            hint="supported types: " + ", ".join(sorted(READERS)),
        )
    return reader(config, model_dir)
