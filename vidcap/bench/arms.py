"""What is compared: the methods, with their parts, and transformers itself. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from vidcap.errors import UsageError
from vidcap.parts import assignments, field_name, parse_part, part_field, to_fields
from vidcap.settings import METHODS, SpeculationSettings, method_settings, part_owners

#: transformers' own ``generate`` on the same weights and inputs.
TRANSFORMERS = "transformers"
#: The same with the pair's draft as its ``assistant_model``.
ASSISTED = "transformers-assisted"
#: The same with its ``prompt_lookup_num_tokens``.
LOOKUP = "transformers-lookup"
#: The arms that are none of vidcap's methods.
GENERATES: tuple[str, ...] = (TRANSFORMERS, ASSISTED, LOOKUP)
#: How many tokens the look-up of transformers drafts; what it does not say itself.
LOOKUP_TOKENS = METHODS["lookup"].draft_tokens
#: The arm that others are compared with.
PLAIN = "plain"

DEFAULT_ARMS: tuple[str, ...] = (PLAIN, "sd-tree", TRANSFORMERS)


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the things that are compared.

    Attributes:
        name: as reports call it, ``sd`` or ``sd[draft-tokens=3]``.
        speculation: the method; None for one of ``GENERATES``, which `name` then is.
    """

    name: str
    speculation: SpeculationSettings | None

    @property
    def needs_draft(self) -> bool:
        """Whether it runs the draft model."""
        if self.speculation is None:
            return self.name == ASSISTED
        return self.speculation.needs_draft

    @property
    def speculates(self) -> bool:
        """Whether anything is drafted."""
        return self.speculation is not None and self.speculation.speculates

    @property
    def promises_exactness(self) -> bool:
        """Whether it has to give the tokens of plain decoding."""
        return self.speculation is not None and self.speculation.verify == "strict"

    def settings(self) -> dict[str, Any]:
        """The method and the parts that make a difference to it, as JSON types."""
        method = self.speculation
        if method is None:
            drafts = {"prompt_lookup_num_tokens": LOOKUP_TOKENS} if self.name == LOOKUP else {}
            return {"method": self.name, **drafts}
        settings: dict[str, Any] = {"method": method.method}
        if method.speculates:
            settings |= {"draft": method.draft, "verify": method.verify}
        return settings | {name: getattr(method, name) for name in sorted(method.parts())}


def make_arms(
    names: Sequence[str],
    fixed: Mapping[str, str],
    grid: Mapping[str, Sequence[str]],
) -> list[Arm]:
    """The arms that were asked for.

    Args:
        names: methods, or some of ``GENERATES``; named twice, an arm runs once.
        fixed: parts with their value, for all arms that have them.
        grid: parts with several values: an arm that has such a part is run with each of them, one
            that has several with each combination.

    Raises:
        UsageError: an unknown arm or part, a value that makes no sense, a part that makes no
            difference to any arm.
    """
    twice = fixed.keys() & grid.keys()
    if twice:
        raise UsageError(f"'{sorted(twice)[0]}' is set and varied at once")
    values = {key: [parse_part(key, text)] for key, text in fixed.items()}
    varied = {key: [parse_part(key, text) for text in texts] for key, texts in grid.items()}
    arms = [arm for name in dict.fromkeys(names) for arm in _variants(name, values, varied)]
    used = frozenset().union(*(arm.speculation.parts() for arm in arms if arm.speculation))
    for key, choices in (values | varied).items():
        if not any(part_field(key, value) in used for value in choices):
            hint = part_owners(field_name(key))
            raise UsageError(f"{key} makes no difference to any arm", hint=hint)
    return arms


def loading_method(arms: Sequence[Arm]) -> SpeculationSettings:
    """A method for whose sake everything is loaded that one of the arms needs."""
    drafting = [arm for arm in arms if arm.needs_draft]
    if not drafting:
        return METHODS[PLAIN]
    return next((arm.speculation for arm in drafting if arm.speculation), METHODS["sd"])


def parse_grid(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parts from ``KEY=V1,V2``; a value that comes twice counts once.

    Raises:
        UsageError: for another form, or a key that comes twice.
    """
    return {
        key: tuple(dict.fromkeys(value.strip() for value in values.split(",")))
        for key, values in assignments(texts, "--grid takes KEY=V1,V2")
    }


def _variants(
    name: str, fixed: Mapping[str, Sequence[Any]], grid: Mapping[str, Sequence[Any]]
) -> list[Arm]:
    """The arms of one name; those that would be the same run once."""
    if name in GENERATES:
        return [Arm(name, None)]
    if name not in METHODS:
        raise UsageError(f"unknown arm '{name}'", hint="arms: " + ", ".join([*METHODS, *GENERATES]))
    choices = {**fixed, **grid}
    arms = {}
    for values in product(*choices.values()):
        parts = _effective(name, dict(zip(choices, values, strict=True)))
        label = ",".join(f"{key}={_typed(value)}" for key, value in parts.items() if key in grid)
        full_name = f"{name}[{label}]" if label else name
        arms[full_name] = Arm(full_name, method_settings(name, **to_fields(parts)))
    return list(arms.values())


def _effective(name: str, parts: dict[str, Any]) -> dict[str, Any]:
    """Those of the parts that make a difference to a method, given the others."""
    while True:
        method = replace(METHODS[name], **to_fields(parts))
        kept = {
            key: value for key, value in parts.items() if part_field(key, value) in method.parts()
        }
        if len(kept) == len(parts):
            return kept
        parts = kept


def _typed(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
