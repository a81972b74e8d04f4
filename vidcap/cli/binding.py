"""Lets a command take groups of options as dataclasses, so that each option is declared once.

Typer builds a command from the parameters of a function. Here a parameter may be a frozen dataclass
whose fields are options (or such dataclasses again): its fields become parameters of the command,
and the function receives the filled dataclass.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

import typer


def option(*names: str, help: str, panel: str, **more: Any) -> Any:
    """A Typer option that can also be set by ``VIDCAP_`` and its long name.

    Args:
        names: as typed, the long one among them.
        help: one sentence.
        panel: heading in ``--help`` under which it stands.
        more: passed on to ``typer.Option``.
    """
    long_name = next(name for name in names if name.startswith("--"))
    variable = "VIDCAP_" + long_name.split("/")[0].strip("-").replace("-", "_").upper()
    return typer.Option(*names, help=help, rich_help_panel=panel, envvar=variable, **more)


def grouped(function: Callable[..., int]) -> Callable[..., int]:
    """The function with every dataclass among its parameters replaced by its fields."""
    hints = get_type_hints(function, include_extras=True)
    own = inspect.signature(function).parameters
    flat: dict[str, inspect.Parameter] = {}
    for name, parameter in own.items():
        if _is_group(hints[name]):
            flat.update(_group_parameters(hints[name]))
        else:
            flat[name] = parameter.replace(annotation=hints[name])

    @wraps(function)
    def command(**values: Any) -> int:
        arguments = {
            name: _fill(hints[name], values) if _is_group(hints[name]) else values[name]
            for name in own
        }
        return function(**arguments)

    parameters = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in flat.values()]
    command.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    command.__doc__ = _unwrapped(function.__doc__ or "")
    command.__annotations__ = {item.name: item.annotation for item in parameters}
    return command


def _unwrapped(doc: str) -> str:
    """The paragraphs of a docstring on one line each, for help that wraps them itself."""
    paragraphs = inspect.cleandoc(doc).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and is_dataclass(annotation)


def _group_parameters(group: type) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    flat: dict[str, inspect.Parameter] = {}
    for item in fields(group):
        if _is_group(hints[item.name]):
            flat.update(_group_parameters(hints[item.name]))
        else:
            default = inspect.Parameter.empty if item.default is MISSING else item.default
            flat[item.name] = inspect.Parameter(
                item.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=hints[item.name],
            )
    return flat


def _fill(group: Any, values: dict[str, Any]) -> Any:
    hints = get_type_hints(group, include_extras=True)
    return group(
        **{
            item.name: _fill(hints[item.name], values)
            if _is_group(hints[item.name])
            else values[item.name]
            for item in fields(group)
        }
    )
