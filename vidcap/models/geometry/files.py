"""Reading the JSON files of a checkpoint folder in the hub's layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vidcap.errors import ModelError


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file, None when the file does not exist.

    Raises:
        ModelError: the file cannot be read or holds something else than a JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(f"cannot read {path}: not a JSON object")
    return content


def read_model_config(model_dir: Path) -> dict[str, Any]:
    """The content of ``config.json``.

    Raises:
        ModelError: there is no such file, or it is broken.
    """
    config = read_json(model_dir / "config.json")
    if config is None:
        raise ModelError(
            f"no model in {model_dir}: config.json is missing",
            hint="a model is a folder in the layout of the Hugging Face hub, or a hub id",
        )
    return config


def read_video_processor_config(model_dir: Path) -> dict[str, Any]:
    """The settings of the checkpoint's video processor, found where transformers finds them.

    Since version 5 they are written into ``processor_config.json`` under ``video_processor``; older
    checkpoints have ``video_preprocessor_config.json`` or only the image processor's
    ``preprocessor_config.json``, which then counts for videos as well.

    Raises:
        ModelError: none of these files is there, or one is broken.
    """
    nested = (read_json(model_dir / "processor_config.json") or {}).get("video_processor")
    if isinstance(nested, dict):
        return nested
    for name in ("video_preprocessor_config.json", "preprocessor_config.json"):
        config = read_json(model_dir / name)
        if config is not None:
            return config
    raise ModelError(
        f"no video processor in {model_dir}: processor_config.json, "
        "video_preprocessor_config.json and preprocessor_config.json are missing"
    )
