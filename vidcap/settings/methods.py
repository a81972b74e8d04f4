"""The methods by name: presets of a method's parts, and what may be changed in them."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations
from typing import Any

from vidcap.errors import UsageError
from vidcap.settings.speculation import (
    LOOSE_PARTS,
    PRUNE_PARTS,
    TREE_PARTS,
    SpeculationSettings,
)

#: Method presets as plain data. A new method is a new line here and its classes in the engine.
METHODS: dict[str, SpeculationSettings] = {
    preset.method: preset
    for preset in (
        SpeculationSettings(
            "auto",
            "pair",
            "auto",
            summary="a tree that grows as long as that pays by measured cost, maybe nothing",
        ),
        SpeculationSettings("plain", summary="one token per target call, no draft"),
        SpeculationSettings("sd", "pair", summary="a chain of drafted tokens"),
        SpeculationSettings("sd-tree", "pair", "static", summary="SpecVLM's 25-node static tree"),
        SpeculationSettings(
            "specvlm",
            "pair",
            "static",
            prune=0.9,
            kept_positions="compact",
            summary="that tree, the draft seeing the tenth of the video that the question "
            "attends to",
        ),
        SpeculationSettings(
            "parallelvlm",
            "pair",
            prune=0.9,
            prune_by="uv",
            prefill="parallel",
            summary="a chain by a draft that is prefilled beside the target, on the tenth of the "
            "video that the question moves towards in early layers",
        ),
        SpeculationSettings(
            "lvspec",
            "pair",
            draft_tokens=10,
            prune=0.9,
            prune_by="uniform",
            verify="loose",
            summary="NOT lossless: drafts that no guard holds stand unchecked (after LVSpec)",
        ),
        SpeculationSettings(
            "fly",
            "pair",
            draft_tokens=10,
            prune=0.9,
            prune_by="uniform",
            verify="loose",
            loose_rule="fly",
            summary="NOT lossless: lone mismatches stand where the target is unsure (FLy)",
        ),
        SpeculationSettings(
            "lookup", "lookup", draft_tokens=10, summary="drafts from the text so far, no model"
        ),
        SpeculationSettings(
            "self",
            "self",
            prune=0.9,
            summary="the target drafts for itself on a tenth of the video",
        ),
    )
}

DEFAULT_METHOD = "auto"

#: Visual share of the attention from which ViSkip leaves a round undrafted, as published.
VISKIP_THRESHOLD = 0.35


def method_settings(name: str, **overrides: Any) -> SpeculationSettings:
    """The preset ``name`` with every override that is not None applied.

    Raises:
        UsageError: for an unknown method, or a part that makes no difference to it.
    """
    preset = METHODS.get(name)
    if preset is None:
        raise UsageError(f"unknown method '{name}'", hint="methods: " + ", ".join(METHODS))
    given = {key: value for key, value in overrides.items() if value is not None}
    unknown = given.keys() - {field.name for field in fields(SpeculationSettings)}
    if unknown:
        raise UsageError(f"unknown speculation setting '{sorted(unknown)[0]}'")
    settings = replace(preset, **given)
    idle = sorted(given.keys() - settings.parts())
    if idle:
        of_a_tree = any(idle[0] in parts for parts in TREE_PARTS.values())
        raise UsageError(
            f"{idle[0].replace('_', '-')} makes no difference to method '{name}'"
            + (f" with tree '{settings.tree}'" if of_a_tree and settings.needs_draft else ""),
            hint=_way_to(idle[0], settings),
        )
    return settings


#: Settings that give a method parts that it does not have as it stands.
_SWITCHES: tuple[tuple[str, Any], ...] = (
    ("prune", 0.9),
    *[("prune_by", by) for by in ("attention", "uv", "random")],
    ("prefill", "parallel"),
    ("verify", "loose"),
    *[("loose_rule", rule) for rule in ("lvspec", "fly")],
    *[("tree", tree) for tree in ("chain", "dynamic", "entropy")],
    ("lookup_branch", 8),
)


def _way_to(name: str, settings: SpeculationSettings) -> str | None:
    """Methods that have the part `name`, and how this one gets it, as a hint."""
    switch = _switch(name, settings)
    if switch is None or not _owners(name):
        return switch or part_owners(name)
    return f"{part_owners(name)}; {switch}"


def _switch(name: str, settings: SpeculationSettings) -> str | None:
    """The fewest other settings with which a method has the part `name`, as a hint."""
    for count in (1, 2):
        for switches in combinations(_SWITCHES, count):
            try:
                changed = replace(settings, **dict(switches))
            except UsageError:
                continue  # they contradict each other
            if name in changed.parts() and {key for key, _ in switches} <= changed.parts():
                given = (f"{key.replace('_', '-')}={value}" for key, value in switches)
                return "here with " + " and ".join(given)
    return None


def part_owners(name: str) -> str | None:
    """Which methods have the part `name` of the settings, as a hint.

    Where none has it as it stands, the trees, prunings or loose rules that have it.
    """
    owners = _owners(name)
    tables = {"tree": TREE_PARTS, "prune-by": PRUNE_PARTS, "loose-rule": LOOSE_PARTS}
    for key, table in tables.items():
        if not owners:
            owners = [f"{key}={value}" for value, parts in table.items() if name in parts]
    return "it belongs to: " + ", ".join(owners) if owners else None


def _owners(name: str) -> list[str]:
    return [method for method, preset in METHODS.items() if name in preset.parts()]
