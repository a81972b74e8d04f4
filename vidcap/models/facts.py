"""What is known of a model without its weights in memory: sizes, context, stop tokens.

From the files of a local folder, or from ``pairs.toml`` for the models of the presets that are not
here yet. Imports no torch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from vidcap.errors import ModelError
from vidcap.models.geometry import Geometry, make_geometry, read_geometry
from vidcap.models.geometry.files import read_json, read_model_config
from vidcap.models.stored import stored_quantization
from vidcap.models.tower import TowerFacts, tower_facts
from vidcap.models.unpacked import count_parameters, unpacks
from vidcap.models.weights import stored_tensors, weight_files


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One checkpoint.

    Attributes:
        family: the ``model_type``.
        parameters: numbers in the safetensors files, after unpacking where they are unpacked.
        weight_bytes: size of these files.
        layers, kv_heads, head_dim: of the text model; they give the size of keys and values.
        heads: of queries.
        hidden, inner, vocabulary: width of the text model and of its MLPs, rows of its embedding.
        tower: sizes of the vision tower.
        context: most tokens of prompt and answer, None where the checkpoint does not say.
        stop_tokens: tokens that end an answer; ``#ID`` where the tokenizer does not name one.
        geometry: sizes of frames and numbers of visual tokens.
        quantization: how the stored weights are quantized, None for not at all; see
            :mod:`vidcap.models.stored`.
    """

    family: str
    parameters: int
    weight_bytes: int
    layers: int
    kv_heads: int
    head_dim: int
    heads: int
    hidden: int
    inner: int
    vocabulary: int
    tower: TowerFacts
    context: int | None
    stop_tokens: tuple[str, ...]
    geometry: Geometry
    quantization: str | None = None

    @property
    def stays_packed(self) -> bool:
        """Whether its weights are in memory as they are in the files."""
        return self.quantization is not None and not unpacks(self.quantization)

    @property
    def layer_parameters(self) -> int:
        """Numbers in the matrices of the text model's layers."""
        attention = 2 * (self.heads + self.kv_heads) * self.head_dim * self.hidden
        return self.layers * (attention + 3 * self.hidden * self.inner)

    @property
    def head_parameters(self) -> int:
        """Numbers in the output layer, which may be the embedding's."""
        return self.vocabulary * self.hidden


def read_facts(folder: Path) -> ModelFacts:
    """The facts of the checkpoint in a local folder.

    Raises:
        ModelError: files are missing or broken, or the family is unknown.
    """
    config = read_model_config(folder)
    files = weight_files(folder)
    return _facts(
        config,
        str(folder),
        read_geometry(folder),
        parameters=count_parameters(config, stored_tensors(folder)),
        weight_bytes=sum(file.stat().st_size for file in files),
        stop_tokens=_stop_tokens(folder, config),
    )


def known_facts(name: str) -> ModelFacts | None:
    """The facts of a hub model that a preset names, without any of its files."""
    tables = pair_tables()
    entry = tables["models"].get(name)
    if entry is None:
        return None
    family = tables["families"][entry["family"]]
    config = family["config"] | entry["config"]
    return _facts(
        config,
        name,
        make_geometry(config, family["processor"], name),
        parameters=entry["parameters"],
        weight_bytes=entry["weight_bytes"],
        stop_tokens=tuple(family["stop_tokens"]),
    )


@cache
def pair_tables() -> dict[str, dict[str, Any]]:
    """The content of ``pairs.toml``."""
    text = resources.files("vidcap.models").joinpath("pairs.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _facts(
    config: Mapping[str, Any],
    where: str,
    geometry: Geometry,
    *,
    parameters: int,
    weight_bytes: int,
    stop_tokens: tuple[str, ...],
) -> ModelFacts:
    # Checkpoints of transformers 5 keep the text model's values in a table of their own.
    text = dict(config) | dict(config.get("text_config") or {})
    try:
        heads = int(text["num_attention_heads"])
        return ModelFacts(
            family=str(config["model_type"]),
            parameters=parameters,
            weight_bytes=weight_bytes,
            layers=int(text["num_hidden_layers"]),
            kv_heads=int(text.get("num_key_value_heads") or heads),
            head_dim=int(text.get("head_dim") or int(text["hidden_size"]) // heads),
            heads=heads,
            hidden=int(text["hidden_size"]),
            inner=int(text["intermediate_size"]),
            tower=tower_facts(config),
            vocabulary=int(text["vocab_size"]),
            context=text.get("max_position_embeddings"),
            stop_tokens=stop_tokens,
            geometry=geometry,
            quantization=stored_quantization(config),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ModelError(f"the configuration in {where} is broken: {error!r}") from error


def _stop_tokens(folder: Path, config: Mapping[str, Any]) -> tuple[str, ...]:
    generation = read_json(folder / "generation_config.json") or {}
    ids = generation.get("eos_token_id", config.get("eos_token_id"))
    if ids is None:
        ids = (config.get("text_config") or {}).get("eos_token_id")
    if ids is None:
        named = (read_json(folder / "tokenizer_config.json") or {}).get("eos_token")
        return (named,) if isinstance(named, str) else ()
    names = _special_tokens(folder)
    wanted = ids if isinstance(ids, list) else [ids]
    return tuple(names.get(item, f"#{item}") for item in wanted)


def _special_tokens(folder: Path) -> dict[Any, str]:
    """Texts of the added tokens by id; empty for a tokenizer in another form."""
    tokenizer = read_json(folder / "tokenizer.json") or {}
    added = tokenizer.get("added_tokens")
    if not isinstance(added, list):
        return {}
    return {item.get("id"): str(item.get("content")) for item in added if isinstance(item, dict)}
