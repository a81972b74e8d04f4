"""The configuration file: TOML whose keys are the long names of options.

A key at the top counts for every command that has the option, one in a table named after a command
for that command only. Flags win over ``VIDCAP_`` variables, these over the file, the file over the
defaults.
"""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from vidcap.cli.binding import option
from vidcap.cli.options import PartOptions
from vidcap.cli.values import plain_words
from vidcap.errors import UsageError

_NOT_IN_A_FILE = frozenset({"help", "config", "debug"})

#: Given on the command line or by a variable, these options take the place of others that come from
#: a weaker source: who names another pair does not want half of the usual one.
_REPLACES: dict[str, tuple[str, ...]] = {
    "pair": ("target", "draft", "revision"),
    "no_draft": ("draft", "draft_device", "draft_quantize"),
    "draft": ("no_draft",),
    "method": tuple(item.name for item in fields(PartOptions)),
}

#: Where a value comes from, the strongest last.
_SOURCES = ("DEFAULT", "DEFAULT_MAP", "ENVIRONMENT", "COMMANDLINE")


def usual_file() -> Path:
    """Where the configuration file lies if none is named."""
    return Path(typer.get_app_dir("vidcap")) / "config.toml"


def configured(function: Callable[..., int]) -> Callable[..., int]:
    """The command with ``--config``, whose file gives defaults for its other options."""
    own = inspect.signature(function)

    @wraps(function)
    def command(**values: Any) -> int:
        context: typer.Context = values["context"]
        for name in _replaced(context, values):
            values[name] = own.parameters[name].default
        return function(**{name: values[name] for name in own.parameters})

    extra = {
        "context": inspect.Parameter(
            "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        ),
        "config": inspect.Parameter(
            "config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_CONFIG
        ),
    }
    parameters = list({**own.parameters, **extra}.values())
    command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {item.name: item.annotation for item in parameters}
    return command


def file_in_use(context: typer.Context) -> Path:
    """The configuration file of a command, whether it exists or not."""
    return context.obj if isinstance(context.obj, Path) else usual_file()


def _load(context: typer.Context, config: Path | None) -> Path | None:
    """Makes the file's values the defaults of the command; options are read after this one."""
    if not context.resilient_parsing:
        path = config or usual_file()
        content = _read(path, required=config is not None)
        commands = dict(_commands(context.find_root().command))
        _check_keys(path, content, commands)
        context.default_map = _values(context, path, content)
        context.obj = path
    return config


_CONFIG = Annotated[
    Path | None,
    option(
        "--config",
        panel="Settings",
        metavar="FILE",
        help="Read settings from this file instead of the usual one, which `vidcap doctor` names.",
        is_eager=True,
        expose_value=False,
        callback=_load,
    ),
]


def _read(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        if not required:
            return {}
        raise UsageError(f"{path}: no such configuration file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not a configuration file: {error}") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


def _commands(group: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each command with its options by long name; those of subcommands are put together."""
    for name, command in group.commands.items():
        options = _options(command)
        for _, inner in _commands(command) if hasattr(command, "commands") else ():
            options |= inner
        yield name, options


def _options(command: Any) -> dict[str, Any]:
    return {
        long_name[2:]: item
        for item in command.params
        if item.param_type_name == "option"
        for long_name in [next(name for name in item.opts if name.startswith("--"))]
        if long_name[2:] not in _NOT_IN_A_FILE
    }


def _check_keys(path: Path, content: dict[str, Any], commands: dict[str, dict[str, Any]]) -> None:
    """Raises UsageError for the first key that means nothing."""
    everything = {key for options in commands.values() for key in options}
    for key, value in content.items():
        if isinstance(value, dict):
            if key not in commands:
                raise _unknown(path, f"command '{key}'", key, commands)
            for inner in value:
                if inner not in commands[key]:
                    raise _unknown(path, f"key '{key}.{inner}'", inner, commands[key])
        elif key not in everything:
            raise _unknown(path, f"key '{key}'", key, everything)


def _unknown(path: Path, what: str, word: str, known: Any) -> UsageError:
    near = difflib.get_close_matches(word.replace("_", "-"), list(known), n=1)
    return UsageError(
        f"{path}: unknown {what}",
        hint=f"did you mean {near[0]}?" if near else "keys are the long names of options",
    )


def _values(context: typer.Context, path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """What the file says about the options of one command, by parameter name."""
    section = content.get(_section(context), {})
    plain = {key: value for key, value in content.items() if not isinstance(value, dict)}
    values: dict[str, Any] = {}
    for key, item in _options(context.command).items():
        if key not in section and key not in plain:
            continue
        value = _as_typed(section.get(key, plain.get(key)), item)
        try:
            item.process_value(context, value)
        except typer.TyperException as error:
            hint = None if key in section else "a key for some commands only stands in their tables"
            raise UsageError(f"{path}: {key}: {plain_words(error.message)}", hint=hint) from error
        values[item.name] = value
    return values


def _section(context: typer.Context) -> str:
    """The command's name; of a subcommand that of its group."""
    outer: Any = context
    while outer.parent is not None and outer.parent.parent is not None:
        outer = outer.parent
    return str(outer.info_name)


def _as_typed(value: Any, item: Any) -> Any:
    """A TOML value in the form in which it would be typed."""
    if item.multiple and not isinstance(value, list):
        value = [value]
    if isinstance(value, list):
        return [_as_word(entry) for entry in value]
    return _as_word(value)


def _as_word(value: Any) -> Any:
    # Booleans stay what they are for flags; a local time is 00:01:30 as text.
    return value if isinstance(value, bool) else str(value)


def _replaced(context: typer.Context, values: dict[str, Any]) -> Iterator[str]:
    """Names of options whose value gives way to that of a stronger one."""
    for strong, weak in _REPLACES.items():
        if values.get(strong) in (None, False):
            continue
        for name in weak:
            if name in values and _strength(context, name) < _strength(context, strong):
                yield name


def _strength(context: typer.Context, name: str) -> int:
    source: Any = context.get_parameter_source(name)
    return _SOURCES.index(source.name) if source is not None else 0
