"""The safetensors files of a checkpoint, looked at without loading them.

A folder may come from anywhere and may be half downloaded or made to harm: names in its index are
plain file names, headers are bounded, and what they declare must be there. Imports no torch.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vidcap.errors import ModelError
from vidcap.models.geometry.files import read_json

INDEX = "model.safetensors.index.json"

#: A safetensors header is some hundred kilobytes; more is a damaged file.
_LARGEST_HEADER = 100_000_000

#: One file of a checkpoint in several: what comes before the number, the number, how many.
_PART = re.compile(r"(.*-)(\d{1,6})-of-(\d{1,6})\.safetensors")

#: A file name in an index: nothing that could lead out of the folder.
_PLAIN = re.compile(r"[A-Za-z0-9][\w.-]*\.safetensors")

#: Keys of a configuration that say how many layers there are.
_LAYERS = ("num_hidden_layers", "depth")

_ITEM_BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1}
_ITEM_BYTES |= {"I16": 2, "U16": 2, "F16": 2, "BF16": 2}
_ITEM_BYTES |= {"I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as a header declares it."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """Its numbers."""
        return math.prod(self.shape)


def weight_files(folder: Path) -> list[Path]:
    """The weight files of a checkpoint, all of them there.

    Raises:
        ModelError: there are none, some are missing, or the index is broken.
    """
    files = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
    if not files:
        raise ModelError(
            f"{folder} holds no safetensors weights", hint="other weight formats are not loaded"
        )
    missing = _named(folder, files) - {path.name for path in files}
    if missing:
        raise ModelError(
            f"{folder} is incomplete: {len(missing)} weight files are missing, "
            f"{sorted(missing)[0]} among them",
            hint="an interrupted download goes on with `vidcap models pull`",
        )
    return files


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Every tensor of a checkpoint by the name that its files give it.

    Raises:
        ModelError: files are missing or damaged.
    """
    tensors: dict[str, StoredTensor] = {}
    for file in weight_files(folder):
        tensors |= read_header(file)
    return tensors


def check_layers(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse a configuration with more layers than its files can hold.

    transformers makes lists of that length while it reads a configuration.

    Args:
        folder: the checkpoint.
        config: the content of its ``config.json``.

    Raises:
        ModelError: it has, or files are missing or damaged.
    """
    parts = (config, config.get("text_config"), config.get("vision_config"))
    tables = [part for part in parts if isinstance(part, Mapping)]
    named = [table[key] for table in tables for key in _LAYERS if key in table]
    wrong = [number for number in named if type(number) is not int or number < 0]
    if wrong:
        raise ModelError(f"the configuration in {folder} is broken: {wrong[0]!r} layers")
    held = len(stored_tensors(folder))
    if sum(named) > held:
        raise ModelError(f"{folder} describes {sum(named)} layers, its files hold {held} tensors")


def read_header(file: Path) -> dict[str, StoredTensor]:
    """What a safetensors file declares: 8 bytes with the length of a header, then JSON, then data.

    Raises:
        ModelError: the file cannot be read, or is not as long as it declares.
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > min(_LARGEST_HEADER, size - 8):
                raise ValueError("it ends within its header")
            header = json.loads(stream.read(length))
        return {
            name: _stored(name, entry, size - 8 - length)
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{file} is damaged: {error}") from error


def _stored(name: str, entry: Any, available: int) -> StoredTensor:
    """A header's entry, checked against the bytes that follow the header."""
    shape = tuple(entry["shape"])
    begin, end = entry["data_offsets"]
    whole = all(type(number) is int and number >= 0 for number in (*shape, begin, end))
    tensor = StoredTensor(str(entry["dtype"]), shape)
    if not whole or begin > end:
        raise ValueError(f"{name} is declared wrongly")
    if end > available:
        raise ValueError(f"it ends within {name}")
    width = _ITEM_BYTES.get(tensor.dtype)
    if width is not None and tensor.count * width != end - begin:
        raise ValueError(f"{name} has not as many bytes as its shape needs")
    return tensor


def _named(folder: Path, files: list[Path]) -> set[str]:
    """Names of all weight files that a checkpoint in several should have."""
    index = read_json(folder / INDEX)
    names = _index_names(folder, index) if index is not None else set()
    parts = [part for part in (_PART.fullmatch(path.name) for path in files) if part]
    if parts and index is None and not (folder / "model.safetensors").is_file():
        names.add(INDEX)
    for part in parts:
        stem, digits, count = part[1], len(part[2]), part[3]
        numbers = range(1, int(count) + 1)
        names |= {f"{stem}{number:0{digits}}-of-{count}.safetensors" for number in numbers}
    return names


def _index_names(folder: Path, index: dict[str, Any]) -> set[str]:
    named = index.get("weight_map")
    if not isinstance(named, dict) or not named:
        raise ModelError(f"{folder / INDEX} names no weights")
    for name in named.values():
        if not isinstance(name, str) or not _PLAIN.fullmatch(name):
            raise ModelError(f"{folder / INDEX} names {name!r}, which is no weight file")
    return set(named.values())
