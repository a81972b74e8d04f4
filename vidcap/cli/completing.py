"""Words that the shell offers while a command line is typed."""

from __future__ import annotations

from vidcap.parts import part_keys
from vidcap.settings import METHODS


def complete_pair(incomplete: str) -> list[str]:
    """Names of pair presets that begin like this."""
    from vidcap.models.pair import presets

    return [name for name in presets() if name.startswith(incomplete)]


def complete_method(incomplete: str) -> list[str]:
    """Names of methods that begin like this."""
    return [name for name in METHODS if name.startswith(incomplete)]


def complete_name(incomplete: str) -> list[str]:
    """Names of pair presets and methods that begin like this."""
    return complete_pair(incomplete) + complete_method(incomplete)


def complete_part(incomplete: str) -> list[str]:
    """Keys of ``--set`` that begin like this, with their equals sign."""
    return [f"{key}=" for key in part_keys() if key.startswith(incomplete)]
