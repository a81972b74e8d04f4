"""Fetching models: never silently, never against the user's will to stay offline."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vidcap.cli.console import Console
from vidcap.cli.tables import size_words
from vidcap.errors import ModelError
from vidcap.settings import ModelSettings

if TYPE_CHECKING:
    from vidcap.models.pair import PairPreset


def settle_pair(model: ModelSettings, *, needs_draft: bool) -> ModelSettings:
    """The settings with a pair that is here, or that the user wants to be fetched.

    A pair or model that was named is fetched where it is missing, and that is said. Where none was
    named, it is the largest preset that fits the machine and is cached; where there is none, the
    user is asked on a terminal.

    Raises:
        ModelError: nothing is here, and nobody there to ask, or the answer is no.
        UsageError: the method drafts and no draft was named.
    """
    from vidcap.models import pair

    preset = pair.choose_pair(model)
    if preset is None:
        preset = _default(model, needs_draft=needs_draft)
        model = replace(model, pair=preset.name)
    fetch_pair(preset, model, needs_draft=needs_draft, console=Console())
    return model


def fetch_pair(
    preset: PairPreset, model: ModelSettings, *, needs_draft: bool, console: Console
) -> None:
    """Downloads the models of a pair that are not here.

    Raises:
        ModelError: one cannot be had.
    """
    from vidcap.models.hub import local_model
    from vidcap.models.pair import BUILTIN, models_of

    for name in dict.fromkeys(models_of(preset, model, needs_draft=needs_draft)):
        if name and not name.startswith(BUILTIN) and local_model(name, model.revision) is None:
            fetch_model(name, model.revision, offline=model.offline, console=console)


def fetch_model(name: str, revision: str | None, *, offline: bool, console: Console) -> Path:
    """Downloads a hub model or brings it up to date, and returns its folder.

    Raises:
        ModelError: it cannot be had, or the disk has no room for it.
    """
    from vidcap.models import hub

    if not (offline or hub.is_offline()) and hub.is_hub_id(name):
        size = hub.download_size(name, revision)
        if size != 0:
            _check_room(name, size, hub.cache_folder())
            words = "" if size is None else f" ({size_words(size)})"
            console.notice(f"fetching {name}{words} to {hub.cache_folder()}")
    return hub.pull_model(name, revision=revision, offline=offline)


def _default(model: ModelSettings, *, needs_draft: bool) -> PairPreset:
    from vidcap.models import hub, pair

    try:
        return pair.default_pair(model, needs_draft=needs_draft)
    except ModelError:
        preset = pair.suggested_pair(model, needs_draft=needs_draft)
        if preset is None or model.offline or hub.is_offline() or not _has_terminal():
            raise
        if not _ask(f"Fetch {preset.name} ({pair.size_in_words(preset)}) now?"):
            raise
        return preset


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _ask(question: str) -> bool:
    sys.stderr.write(f"No model is cached and none was named. {question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _check_room(name: str, size: int | None, cache: Path) -> None:
    place = next(path for path in (cache, *cache.parents) if path.exists())
    free = shutil.disk_usage(place).free
    if size is not None and size > free:
        raise ModelError(
            f"{name} needs {size_words(size)}, {place} has {size_words(free)} free",
            hint="HF_HOME names another place for the cache",
        )


def stay_offline() -> None:
    """Keeps every library from connecting; they read this when they are imported."""
    os.environ["HF_HUB_OFFLINE"] = "1"
