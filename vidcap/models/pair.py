"""Which two models make a pair, and where they lie. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from vidcap.errors import ModelError, UsageError
from vidcap.models.facts import ModelFacts, known_facts, pair_tables, read_facts
from vidcap.models.hub import cached_model, find_model, local_model
from vidcap.models.machine import find_devices
from vidcap.models.parallel import devices_of
from vidcap.models.placement import has_room
from vidcap.settings import ModelSettings

#: Marks a model whose folder lies inside the package.
BUILTIN = "builtin:"


@dataclass(frozen=True, slots=True)
class PairPreset:
    """A named pair: hub ids, or ``builtin:`` folders inside the package.

    Attributes:
        notice: what the user should know about this pair, if anything.
        suggested: whether it is recommended to somebody who has no model yet.
    """

    name: str
    target: str
    draft: str | None
    notice: str | None = None
    suggested: bool = True

    @property
    def builtin(self) -> bool:
        """Whether the weights come with the package."""
        return self.target.startswith(BUILTIN)


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
    """All pair presets by name, in the order of ``pairs.toml``."""
    return {name: PairPreset(name=name, **entry) for name, entry in pair_tables()["pairs"].items()}


def find_pair(settings: ModelSettings, *, needs_draft: bool) -> PairFolders:
    """Resolve the settings to folders, downloading hub models that were named and are not here.

    Args:
        settings: pair, target, draft and how to fetch them.
        needs_draft: whether the method drafts; without need no draft is fetched.

    Raises:
        ModelError: a model is missing, or no pair was named and no preset is cached and fits.
        UsageError: a method that drafts without a draft model.
    """
    preset = choose_pair(settings) or default_pair(settings, needs_draft=needs_draft)
    target, draft = models_of(preset, settings, needs_draft=needs_draft)
    return PairFolders(
        name=preset.name,
        target_name=target.removeprefix(BUILTIN),
        target=_locate(target, settings),
        draft_name=draft.removeprefix(BUILTIN) if draft else None,
        draft=_locate(draft, settings) if draft else None,
        notice=preset.notice,
    )


def choose_pair(settings: ModelSettings) -> PairPreset | None:
    """The pair that the settings name, None where they name none.

    Raises:
        UsageError: for a name that can be no pair.
    """
    if settings.pair is None:
        if settings.target is None:
            return None
        name = "+".join(filter(None, (settings.target, settings.draft)))
        return PairPreset(name, settings.target, settings.draft)
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


def models_of(
    preset: PairPreset, settings: ModelSettings, *, needs_draft: bool
) -> tuple[str, str | None]:
    """Names of target and draft, as far as the settings and the method need them.

    Raises:
        ModelError: no draft is named, and the target is a folder that is missing or incomplete.
        UsageError: a method that drafts without a draft model.
    """
    target, draft = settings.target or preset.target, settings.draft or preset.draft
    if not settings.use_draft or not needs_draft:
        draft = None
    elif draft is None:
        if not target.startswith(BUILTIN):
            # Of a mistyped folder, that it is missing comes first.
            local_model(target, settings.revision)
        raise UsageError(
            "the method drafts, but no draft model was given",
            hint="add --draft MODEL, write --pair TARGET+DRAFT, or use --method plain",
        )
    return target, draft


def default_pair(settings: ModelSettings, *, needs_draft: bool) -> PairPreset:
    """The largest preset that fits the machine and is cached.

    Raises:
        ModelError: there is none.
    """
    cached = [preset for preset in _hub_presets() if _is_cached(preset, settings, needs_draft)]
    for preset in cached:
        if fits_machine(preset, settings, needs_draft=needs_draft):
            return preset
    if cached:
        raise ModelError(
            f"no cached pair fits this machine, not even {cached[-1].name}",
            hint=f"`--pair {cached[-1].name}` uses it nevertheless, `vidcap plan` says what a "
            "video needs",
        )
    pair = suggested_pair(settings, needs_draft=needs_draft) or smallest_pair()
    raise ModelError(
        "no model is cached and none was named",
        hint=f"fetch one with `vidcap models pull {pair.name}` ({size_in_words(pair)}), name one "
        "with `--pair`, or try the tool with `--pair demo`",
    )


def suggested_pair(settings: ModelSettings, *, needs_draft: bool) -> PairPreset | None:
    """The largest suggested preset that fits the machine, cached or not."""
    for preset in _suggested_presets():
        if fits_machine(preset, settings, needs_draft=needs_draft):
            return preset
    return None


def largest_pair(settings: ModelSettings, *, needs_draft: bool) -> tuple[PairPreset, bool]:
    """The largest preset that fits the machine, cached and suggested or not.

    Returns:
        that preset and True, or the smallest one and False where none fits.
    """
    every = _hub_presets()
    for preset in every:
        if fits_machine(preset, settings, needs_draft=needs_draft):
            return preset, True
    return every[-1], False


def smallest_pair() -> PairPreset:
    """The smallest suggested preset."""
    return _suggested_presets()[-1]


def fits_machine(preset: PairPreset, settings: ModelSettings, *, needs_draft: bool) -> bool:
    """Whether a preset has room for an ordinary video on the devices that the settings name."""
    target, draft = models_of(preset, settings, needs_draft=needs_draft)
    other = find_devices(settings.draft_device)[0] if settings.draft_device else None
    return has_room(
        settings,
        model_facts(target, settings.revision),
        model_facts(draft, settings.revision) if draft else None,
        devices_of(settings, find_devices),
        other,
    )


def model_facts(name: str, revision: str | None = None) -> ModelFacts:
    """What is known of a model that is here, or that a preset names.

    Raises:
        ModelError: it is neither.
    """
    if name.startswith(BUILTIN):
        return read_facts(builtin_folder(name.removeprefix(BUILTIN)))
    known = known_facts(name)
    if known is not None and revision is None:
        return known
    folder = local_model(name, revision)
    if folder is None:
        raise ModelError(
            f"model '{name}' is not cached, its sizes are not known",
            hint=f"`vidcap models pull {name}` fetches it",
        )
    return read_facts(folder)


def known_size(preset: PairPreset) -> int | None:
    """Bytes of the weights of a pair, None where they are not known without the hub."""
    names = [preset.target, *([preset.draft] if preset.draft else [])]
    known = [known_facts(name) for name in dict.fromkeys(names)]
    sizes = [facts.weight_bytes for facts in known if facts is not None]
    return sum(sizes) if len(sizes) == len(known) else None


def size_in_words(preset: PairPreset) -> str:
    """The size of a pair's download as people write it."""
    size = known_size(preset)
    return "unknown size" if size is None else f"{size / 1e9:.0f} GB"


def _hub_presets() -> list[PairPreset]:
    """Presets that may be chosen without being named, the largest target and draft first.

    The demo pair is none of them: it knows rendered scenes only.
    """
    found = [preset for preset in presets().values() if not preset.builtin]
    return sorted(found, key=_sizes, reverse=True)


def _sizes(preset: PairPreset) -> tuple[int, int]:
    """Numbers of parameters of a hub preset's target and draft."""
    target, draft = known_facts(preset.target), known_facts(preset.draft or "")
    return target.parameters if target else 0, draft.parameters if draft else 0


def _suggested_presets() -> list[PairPreset]:
    return [preset for preset in _hub_presets() if preset.suggested]


def _is_cached(preset: PairPreset, settings: ModelSettings, needs_draft: bool) -> bool:
    names = models_of(preset, settings, needs_draft=needs_draft)
    return all(name is None or cached_model(name, settings.revision) for name in names)


def _locate(name: str, settings: ModelSettings) -> Path:
    if name.startswith(BUILTIN):
        return builtin_folder(name.removeprefix(BUILTIN))
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
