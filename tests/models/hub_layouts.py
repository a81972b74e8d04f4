"""Checkpoints in the layouts that the hub's have, which releases 4 of transformers wrote.

Since release 5, ``save_pretrained`` writes other files and keys. The hub has, by family:

* Qwen2-VL and Qwen2.5-VL: the text model's settings at the top of ``config.json``.
* Qwen3-VL: settings in parts as today, but ``rope_scaling`` and ``rope_theta`` in their old places.
* LLaVA-OneVision: in parts, and only what differs from the defaults of the classes.
* All: settings of the processors in files of their own, the template in ``chat_template.json``.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

#: Keys of the text model's settings that releases 4 did not write.
_NEW_KEYS = ("layer_types", "dtype", "pad_token_id")

#: What turns names of weights as ``save_pretrained`` writes them into those of the hub.
_RELEASED = {"llava_onevision": ((r"^vision_tower\.", "vision_tower.vision_model."),)}

#: What turns these into the names that releases 4.52 to 4.57 wrote, as fine-tuned models have them.
_LATER = {
    "qwen2_vl": ((r"^model\.", "model.language_model."), (r"^visual\.", "model.visual.")),
    "qwen2_5_vl": ((r"^model\.", "model.language_model."), (r"^visual\.", "model.visual.")),
    "llava_onevision": (
        (r"^language_model\.lm_head\.", "lm_head."),
        (r"^language_model\.model\.", "model.language_model."),
        (r"^vision_tower\.", "model.vision_tower."),
        (r"^(multi_modal_projector|image_newline)", r"model.\1"),
    ),
}


def hub_layout(folder: Path, target: Path) -> Path:
    """A copy of a checkpoint as the hub has those of its family."""
    shutil.copytree(folder, target)
    config = _read(target, "config.json")
    family = config["model_type"]
    config["torch_dtype"] = config.pop("dtype")
    _write(target, "config.json", _CONFIGS[family](config))
    _split_processor(target, family)
    template = target / "chat_template.jinja"
    _write(target, "chat_template.json", {"chat_template": template.read_text()})
    template.unlink()
    return _rename(target, _RELEASED.get(family, ()))


def later_names(folder: Path, target: Path) -> Path:
    """A copy of a checkpoint in the hub's layout, weights named as releases 4.52 to 4.57 did."""
    shutil.copytree(folder, target)
    return _rename(target, _LATER[_read(target, "config.json")["model_type"]])


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    text = _old_text(config.pop("text_config"))
    text["rope_scaling"]["type"] = "mrope"
    del text["model_type"], text["rope_scaling"]["rope_type"]
    tower = config["vision_config"]
    tower |= {"in_chans": tower.pop("in_channels"), "spatial_patch_size": tower["patch_size"]}
    for name in ("model_type", "rope_parameters"):
        del tower[name]
    return text | config


def _nested(config: dict[str, Any]) -> dict[str, Any]:
    config["text_config"] = _old_text(config["text_config"])
    tower = config["vision_config"]
    tower["model_type"] = config["model_type"]
    del tower["rope_parameters"]
    return config


def _sparse(config: dict[str, Any]) -> dict[str, Any]:
    text = _old_text(config["text_config"])
    del text["rope_scaling"]
    defaults = ("attention_dropout", "hidden_act", "initializer_range", "rms_norm_eps", "use_cache")
    for name in (*defaults, "max_window_layers", "sliding_window", "use_sliding_window"):
        del text[name]
    text |= {"architectures": ["Qwen2ForCausalLM"], "torch_dtype": config["torch_dtype"]}
    for name in ("attention_dropout", "hidden_act", "layer_norm_eps", "num_channels"):
        del config["vision_config"][name]
    del config["multimodal_projector_bias"]
    return config | {"text_config": text, "use_image_newline_parameter": True}


def _old_text(text: dict[str, Any]) -> dict[str, Any]:
    """The text model's settings with rotary ones in two places."""
    rope = text.pop("rope_parameters")
    theta = rope.pop("rope_theta")
    for name in _NEW_KEYS:
        text.pop(name, None)
    return text | {"rope_theta": theta, "rope_scaling": rope}


_CONFIGS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "qwen2_vl": _flat,
    "qwen2_5_vl": _flat,
    "qwen3_vl": _nested,
    "llava_onevision": _sparse,
}


def _split_processor(folder: Path, family: str) -> None:
    """Settings of the processors in files of their own."""
    settings = _read(folder, "processor_config.json")
    image, video = settings.pop("image_processor"), settings.pop("video_processor")
    image["processor_class"] = video["processor_class"] = settings["processor_class"]
    if family in ("qwen2_vl", "qwen2_5_vl"):
        del image["size"]
        image |= {"min_pixels": 3136, "max_pixels": 200_704}
    if family == "qwen3_vl":
        _write(folder, "video_preprocessor_config.json", video)
    if family == "llava_onevision":
        _write(folder, "processor_config.json", settings)
    else:
        (folder / "processor_config.json").unlink()
    _write(folder, "preprocessor_config.json", image)


def _rename(folder: Path, rules: tuple[tuple[str, str], ...]) -> Path:
    path = folder / "model.safetensors"
    tensors = {}
    for name, tensor in load_file(path).items():
        rule = next((rule for rule in rules if re.match(rule[0], name)), None)
        tensors[re.sub(*rule, name) if rule else name] = tensor
    save_file(tensors, path, metadata={"format": "pt"})
    return folder


def _read(folder: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / name).read_text())
    return content


def _write(folder: Path, name: str, content: dict[str, Any]) -> None:
    (folder / name).write_text(json.dumps(content))
