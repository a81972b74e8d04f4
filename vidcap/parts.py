"""Parts of a speculative method as text: ``KEY=VALUE``, keys with dashes as in long options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from vidcap.errors import UsageError
from vidcap.settings import PART_RANGES, SpeculationSettings

#: Value of ``draft-tokens`` that leaves the length of drafts to measured cost.
AUTO_LENGTH = "auto"

#: Fields of the settings that say which method it is, and so are no parts of one.
_IDENTITY = frozenset({"method", "draft", "summary"})


def part_keys() -> list[str]:
    """Every key, with dashes."""
    names = get_type_hints(SpeculationSettings)
    return [name.replace("_", "-") for name in names if name not in _IDENTITY]


def to_fields(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Parts of a method as fields of the settings; ``draft-tokens`` ``auto`` is a tree.

    Args:
        parts: values by key or by field.

    Raises:
        UsageError: for ``draft-tokens=auto`` with another tree.
    """
    values = {field_name(key): value for key, value in parts.items()}
    if values.get("draft_tokens") == AUTO_LENGTH:
        del values["draft_tokens"]
        if values.setdefault("tree", "auto") != "auto":
            raise UsageError(f"draft-tokens=auto and tree={values['tree']} contradict each other")
    return values


def part_field(key: str, value: Any) -> str:
    """The settings' field that a part with that value decides."""
    name = field_name(key)
    return "tree" if (name, value) == ("draft_tokens", AUTO_LENGTH) else name


def field_name(key: str) -> str:
    """The settings' field that a key means."""
    return key.replace("-", "_").replace(".", "_")


def parse_part(key: str, text: str) -> Any:
    """The value of a part of a method, from what was typed.

    Args:
        key: its name, with dashes as in the option's long name.
        text: the value.

    Raises:
        UsageError: no method has such a part, or the text is no value of it.
    """
    key = key.replace(".", "-")
    if key not in part_keys():
        raise UsageError(
            f"no method has a setting '{key}'", hint="settings: " + ", ".join(part_keys())
        )
    hint = get_type_hints(SpeculationSettings)[field_name(key)]
    if get_origin(hint) is Literal:
        if text not in get_args(hint):
            words = ", ".join(get_args(hint))
            raise UsageError(f"{key} takes one of {words}, not '{text}'")
        return text
    if several := _several(hint):
        return _parse_several(key, text, several)
    if key == "draft-tokens" and text == AUTO_LENGTH:
        return AUTO_LENGTH
    whole = float not in (hint, *get_args(hint))
    try:
        return int(text) if whole else float(text)
    except ValueError as error:
        raise UsageError(f"{key} takes a {'whole ' * whole}number, not '{text}'") from error


def part_values(key: str) -> str:
    """What a part may be, in words: ``static|dynamic`` or ``0 to 1``."""
    name = field_name(key)
    hint = get_type_hints(SpeculationSettings)[name]
    if get_origin(hint) is Literal:
        return "|".join(get_args(hint))
    if words := _several(hint):
        return "+".join(words) + ", two or more of them"
    if name not in PART_RANGES:
        return "whole number"
    least, most = PART_RANGES[name]
    return f"{least:g} to {most:g}" + (f", or {AUTO_LENGTH}" if name == "draft_tokens" else "")


def _several(hint: Any) -> tuple[str, ...]:
    """The words that a part may hold several of, none where it holds something else."""
    for form in get_args(hint):
        if get_origin(form) is tuple:
            words: tuple[str, ...] = get_args(get_args(form)[0])
            return words
    return ()


def _parse_several(key: str, text: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """Words joined by '+'."""
    parts = tuple(text.split("+"))
    for part in parts:
        if part not in words:
            raise UsageError(f"{key} takes some of {'+'.join(words)}, not '{part}'")
    return parts


def parse_fixed(texts: Sequence[str]) -> dict[str, str]:
    """Parts from ``KEY=VALUE``.

    Raises:
        UsageError: for another form, or a key that comes twice.
    """
    return dict(assignments(texts, "--set takes KEY=VALUE"))


def assignments(texts: Sequence[str], form: str) -> list[tuple[str, str]]:
    """Keys and values of ``KEY=VALUE`` texts.

    Args:
        texts: as typed.
        form: the start of the message about another form.

    Raises:
        UsageError: for another form, or a key that comes twice.
    """
    pairs: list[tuple[str, str]] = []
    for text in texts:
        key, equals, value = (word.strip() for word in text.partition("="))
        if not (key and equals and value):
            raise UsageError(f"{form}, not '{text}'")
        if any(key == earlier for earlier, _ in pairs):
            raise UsageError(f"'{key}' is given twice")
        pairs.append((key, value))
    return pairs
