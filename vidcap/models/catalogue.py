"""Which pairs and models there are, what of them is here, and how large they are.

For ``vidcap models`` and ``vidcap doctor``. Imports no torch and never connects.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vidcap.errors import ModelError
from vidcap.models.facts import known_facts, read_facts
from vidcap.models.hub import cached_model, check_folder, folder_size, is_hub_id
from vidcap.models.pair import BUILTIN, PairPreset, builtin_folder, fits_machine, presets
from vidcap.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class ModelState:
    """A model, and whether it is here.

    Attributes:
        name: hub id, folder, or name inside the package.
        folder: where it lies, None where it is not here.
        size_bytes: on disk, or of the weights that would be fetched; None where nobody knows.
    """

    name: str
    folder: Path | None
    size_bytes: int | None

    @property
    def cached(self) -> bool:
        """Whether it is here."""
        return self.folder is not None


@dataclass(frozen=True, slots=True)
class PairState:
    """A pair preset, and how much of it is here.

    Attributes:
        fits: whether an ordinary video has room on this machine.
    """

    preset: PairPreset
    target: ModelState
    draft: ModelState | None
    fits: bool

    @property
    def models(self) -> list[ModelState]:
        """Target, and draft where there is one."""
        return [self.target, *([self.draft] if self.draft else [])]

    @property
    def cached(self) -> bool:
        """Whether all of it is here."""
        return all(model.cached for model in self.models)

    @property
    def size_bytes(self) -> int | None:
        """Of both models, None where one is not known."""
        sizes = [model.size_bytes for model in self.models]
        return None if None in sizes else sum(size for size in sizes if size is not None)


def model_state(name: str, revision: str | None = None) -> ModelState:
    """How it is with one model.

    Raises:
        ModelError: a folder holds no complete model, or the name is neither folder nor hub id.
    """
    if name.startswith(BUILTIN):
        folder: Path | None = builtin_folder(name.removeprefix(BUILTIN))
    elif Path(name).expanduser().is_dir():
        folder = check_folder(Path(name).expanduser())
    elif is_hub_id(name):
        folder = cached_model(name, revision)
    else:
        raise ModelError(
            f"no model folder '{name}'", hint="give a folder in the hub's layout or OWNER/NAME"
        )
    if folder is not None:
        return ModelState(name.removeprefix(BUILTIN), folder, folder_size(folder))
    known = known_facts(name)
    return ModelState(name, None, known.weight_bytes if known else None)


def pair_state(preset: PairPreset, settings: ModelSettings) -> PairState:
    """How it is with one pair."""
    return PairState(
        preset,
        model_state(preset.target, settings.revision),
        model_state(preset.draft, settings.revision) if preset.draft else None,
        fits_machine(preset, settings, needs_draft=preset.draft is not None),
    )


def preset_states() -> list[PairState]:
    """All presets; one whose folder inside the package is missing is left out."""
    states = []
    for preset in presets().values():
        try:
            states.append(pair_state(preset, ModelSettings()))
        except ModelError:
            if not preset.builtin:
                raise
    return states


def model_details(state: ModelState) -> dict[str, object]:
    """What is known of a model, as JSON types; sizes only for one that is not here.

    Raises:
        ModelError: its files are broken, or nothing is known of it.
    """
    facts = read_facts(state.folder) if state.folder else known_facts(state.name)
    if facts is None:
        raise ModelError(
            f"model '{state.name}' is not cached, nothing is known about it",
            hint=f"`vidcap models pull {state.name}` fetches it",
        )
    geometry = facts.geometry
    return {
        "name": state.name,
        "folder": str(state.folder) if state.folder else None,
        "cached": state.cached,
        "size_bytes": state.size_bytes,
        "family": facts.family,
        "parameters": facts.parameters,
        "layers": facts.layers,
        "hidden_size": facts.hidden,
        "kv_heads": facts.kv_heads,
        "head_dim": facts.head_dim,
        "vocabulary": facts.vocabulary,
        "context_tokens": facts.context,
        "stop_tokens": list(facts.stop_tokens),
        "placeholders": [geometry.placeholders.video_token, geometry.placeholders.image_token],
    }
