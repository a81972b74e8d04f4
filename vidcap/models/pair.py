"""Which two models make a pair, and where they lie. Imports no torch."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from vidcap.errors import ModelError, UsageError
from vidcap.models.hub import cached_model, find_model
from vidcap.settings import ModelSettings

_BUILTIN = "builtin:"


@dataclass(frozen=True, slots=True)
class PairPreset:
    """A named pair: hub ids, or ``builtin:`` folders inside the package."""

    name: str
    target: str
    draft: str | None
    notice: str | None = None

    @property
    def builtin(self) -> bool:
        """Whether the weights come with the package."""
        return self.target.startswith(_BUILTIN)


@dataclass(frozen=True, slots=True)
class PairFolders:
    """A pair with both models on disk.

    Attributes:
        name: what to call the pair in the record.
        target_name, draft_name: as the user or the preset named them.
        target, draft: local folders; draft None where none is used.
        notice: what the user should know about this pair, if anything.
    """

    name: str
    target_name: str
    target: Path
    draft_name: str | None
    draft: Path | None
    notice: str | None = None


def presets() -> dict[str, PairPreset]:
    """All pair presets by name, in the order of preference of ``pairs.toml``."""
    text = resources.files("vidcap.models").joinpath("pairs.toml").read_text(encoding="utf-8")
    return {name: PairPreset(name=name, **entry) for name, entry in tomllib.loads(text).items()}


def find_pair(settings: ModelSettings, *, needs_draft: bool) -> PairFolders:
    """Resolve the settings to folders, downloading hub models where that is allowed.

    Args:
        settings: pair, target, draft and how to fetch them.
        needs_draft: whether the method drafts; without need no draft is fetched.

    Raises:
        ModelError: a model is missing, or no pair was named and none is cached.
        UsageError: a method that drafts without a draft model.
    """
    preset = _choose(settings)
    target = settings.target or preset.target
    draft = settings.draft or preset.draft
    if not settings.use_draft or not needs_draft:
        draft = None
    elif draft is None:
        raise UsageError(
            "the method drafts, but no draft model was given",
            hint="add --draft MODEL, write --pair TARGET+DRAFT, or use --method plain",
        )
    return PairFolders(
        name=preset.name,
        target_name=target.removeprefix(_BUILTIN),
        target=_locate(target, settings),
        draft_name=draft.removeprefix(_BUILTIN) if draft else None,
        draft=_locate(draft, settings) if draft else None,
        notice=preset.notice,
    )


def _choose(settings: ModelSettings) -> PairPreset:
    if settings.pair is None:
        if settings.target is not None:
            name = "+".join(filter(None, (settings.target, settings.draft)))
            return PairPreset(name, settings.target, settings.draft)
        return _default(settings)
    known = presets()
    if settings.pair in known:
        return known[settings.pair]
    target, plus, draft = settings.pair.partition("+")
    if not target or (plus and not draft):
        raise UsageError(f"'{settings.pair}' is not TARGET or TARGET+DRAFT")
    if not plus and "/" not in target and not Path(target).expanduser().is_dir():
        raise UsageError(
            f"no pair preset and no folder '{target}'", hint="presets: " + ", ".join(known)
        )
    return PairPreset(settings.pair, target, draft or None)


def _default(settings: ModelSettings) -> PairPreset:
    """The first preset with every model that is needed cached."""
    for preset in presets().values():
        names = [preset.target, preset.draft] if settings.use_draft else [preset.target]
        if not preset.builtin and all(
            name is None or cached_model(name, settings.revision) for name in names
        ):
            return preset
    raise ModelError(
        "no model is cached and none was named",
        hint="try the tool with `--pair demo`, or name a pair: `--pair qwen2.5-vl-7b` "
        "(downloads 24 GB), `--pair TARGET+DRAFT` (hub ids or folders)",
    )


def _locate(name: str, settings: ModelSettings) -> Path:
    if name.startswith(_BUILTIN):
        return builtin_folder(name.removeprefix(_BUILTIN))
    return find_model(name, revision=settings.revision, offline=settings.offline)


def builtin_folder(name: str) -> Path:
    """Folder of a model inside the package.

    Raises:
        ModelError: when the installation lacks it.
    """
    folder = Path(str(resources.files("vidcap"))) / "demo" / "weights" / name
    if not (folder / "config.json").is_file():
        raise ModelError(f"this installation lacks the demo model in {folder}")
    return folder
