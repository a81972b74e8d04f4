"""Man pages, written from the app itself: nothing in them is typed twice."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from vidcap import __version__
from vidcap.cli.manual import EXAMPLES, EXIT_CODES, SETTINGS
from vidcap.models.facts import pair_tables
from vidcap.settings import METHODS

#: Longest line of running text in the source of a page.
_WIDTH = 78


def pages(app: Any) -> dict[str, str]:
    """The text of every page by its file name.

    Args:
        app: the root command.
    """
    found = {"vidcap.1": _main_page(app)}
    for name, command in app.commands.items():
        found[f"vidcap-{name}.1"] = _command_page(app, name, command)
    return found


def _main_page(app: Any) -> str:
    names = list(app.commands)
    summary, *rest = _paragraphs(app.help)
    return _page(
        "vidcap",
        [
            ("NAME", [f"vidcap \\- {_escape(_lower(summary))}"]),
            ("SYNOPSIS", ["\\fBvidcap\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]"]),
            ("DESCRIPTION", _prose(rest)),
            ("COMMANDS", _command_list(app)),
            ("OPTIONS", [line for item in app.params for line in _entry(item)]),
            ("PAIRS", _pair_list()),
            ("METHODS", _definitions((name, item.summary) for name, item in METHODS.items())),
            ("SETTINGS", _prose(SETTINGS)),
            ("EXIT STATUS", _definitions(EXIT_CODES)),
            ("EXAMPLES", _examples("vidcap")),
            ("SEE ALSO", [_see_also([f"vidcap-{name}" for name in names])]),
        ],
    )


def _command_page(app: Any, name: str, command: Any) -> str:
    inner = getattr(command, "commands", {})
    summary, *rest = _paragraphs(command.help)
    others = [f"vidcap-{other}" for other in app.commands if other != name]
    usage = [_usage(f"{name} {sub}", item) for sub, item in inner.items()]
    shared = _shared_options(list(inner.values()))
    return _page(
        f"vidcap-{name}",
        [
            ("NAME", [f"vidcap-{name} \\- {_escape(_lower(summary))}"]),
            ("SYNOPSIS", "\n.br\n".join(usage or [_usage(name, command)]).split("\n")),
            ("DESCRIPTION", _prose(rest or [summary])),
            ("ARGUMENTS", _arguments(command)),
            ("COMMANDS", _subcommands(inner, shared)),
            ("OPTIONS", _option_sections(shared if inner else _options(command))),
            ("EXIT STATUS", _definitions(EXIT_CODES)),
            ("EXAMPLES", _examples(name)),
            ("SEE ALSO", [_see_also(["vidcap", *others])]),
        ],
    )


def _subcommands(inner: dict[str, Any], shared: Sequence[Any]) -> list[str]:
    """What each subcommand does, with its arguments and the options that not all of them have."""
    known = {item.name for item in shared}
    lines: list[str] = []
    for name, command in inner.items():
        lines += [f".SS {name}", *_prose(_paragraphs(command.help)), *_arguments(command)]
        own = [item for item in _options(command) if item.name not in known]
        lines += [line for item in own for line in _entry(item)]
    return lines


def _shared_options(commands: Sequence[Any]) -> list[Any]:
    """Options that every one of some commands has."""
    if not commands:
        return []
    names = set.intersection(*({item.name for item in _options(c)} for c in commands))
    return [item for item in _options(commands[0]) if item.name in names]


def _page(title: str, sections: Sequence[tuple[str, Sequence[str]]]) -> str:
    lines = [
        '.\\" Written by python -m vidcap.cli.reference: change the program, not this file.',
        f'.TH {title.upper()} 1 "" "vidcap {__version__}" "User Commands"',
        # No hyphens in names of options and variables, and no gaps to fill a line.
        ".nh",
        ".ad l",
    ]
    for heading, body in sections:
        if body:
            lines += [f".SH {heading}", *body]
    return "\n".join(lines) + "\n"


def _usage(name: str, command: Any) -> str:
    words = " ".join(map(_operand, _positional(command)))
    return f"\\fBvidcap {_escape(name)}\\fR [\\fIOPTIONS\\fR] {words}".rstrip()


def _operand(item: Any) -> str:
    """An argument in a synopsis: in brackets where it may be missing, with dots for several."""
    dots = "..." if item.nargs == -1 else ""
    word = f"\\fI{_escape(_metavar(item))}\\fR{dots}"
    return word if item.required else f"[{word}]"


def _arguments(command: Any) -> list[str]:
    return _definitions((_metavar(item), item.help or "") for item in _positional(command))


def _positional(command: Any) -> list[Any]:
    return [item for item in command.params if item.param_type_name == "argument"]


def _options(command: Any) -> list[Any]:
    return [item for item in command.params if item.param_type_name == "option"]


def _option_sections(options: Sequence[Any]) -> list[str]:
    """Options under the headings that ``--help`` has, in its order."""
    order = list(dict.fromkeys(item.rich_help_panel for item in options))
    options = sorted(options, key=lambda item: order.index(item.rich_help_panel))
    lines: list[str] = []
    for panel, items in groupby(options, key=lambda item: item.rich_help_panel):
        lines.append(f".SS {panel or 'General'}")
        lines += [line for item in items for line in _entry(item)]
    return lines


def _entry(item: Any) -> list[str]:
    names = [*item.opts, *item.secondary_opts]
    words = ", ".join(f"\\fB{_escape(name)}\\fR" for name in names)
    if not item.is_flag:
        words += f" \\fI{_escape(_metavar(item))}\\fR"
    return [".TP", words, *_text(_help(item))]


def _help(item: Any) -> str:
    parts = [item.help or ""]
    default = _default(item)
    if default:
        parts.append(f"Default: {default}.")
    if item.envvar:
        parts.append(f"Variable: {item.envvar}.")
    return " ".join(parts)


def _default(item: Any) -> str | None:
    if isinstance(item.show_default, str):
        return item.show_default
    if item.default is None or item.default is False or item.name == "help":
        return None
    if item.default is True:
        return next(name for name in item.opts if name.startswith("--"))
    value = item.default
    return f"{value:g}" if isinstance(value, float) else str(value)


def _metavar(item: Any) -> str:
    if item.metavar:
        return str(item.metavar)
    choices = item.type_descriptor.choices if item.type_descriptor.is_choice else None
    return "|".join(map(str, choices)) if choices else item.name.upper()


def _command_list(app: Any) -> list[str]:
    lines: list[str] = []
    for name, command in app.commands.items():
        lines += [
            ".TP",
            f"\\fBvidcap\\-{_escape(name)}\\fR(1)",
            *_text(_paragraphs(command.help)[0]),
        ]
    return lines


def _pair_list() -> list[str]:
    def words(entry: dict[str, str]) -> str:
        if entry["target"].startswith("builtin:"):
            return "Two small models that come with vidcap and know rendered scenes only."
        return f"{entry['target']} with {entry['draft']}."

    pairs = pair_tables()["pairs"]
    return _definitions((name, words(entry)) for name, entry in pairs.items())


def _examples(name: str) -> list[str]:
    lines: list[str] = []
    for words, command in EXAMPLES.get(name, ()):
        lines += [".PP", *_text(words), ".PP", ".RS 4", ".EX", _escape(command), ".EE", ".RE"]
    return lines[1:]


def _see_also(names: Sequence[str]) -> str:
    return ",\n".join(f"\\fB{_escape(name)}\\fR(1)" for name in names)


def _definitions(rows: Any) -> list[str]:
    lines: list[str] = []
    for word, words in rows:
        lines += [".TP", f"\\fB{_escape(word)}\\fR", *_text(words)]
    return lines


def _prose(paragraphs: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for paragraph in paragraphs:
        lines += [".PP", *_text(paragraph)]
    return lines[1:]


def _paragraphs(text: str | None) -> list[str]:
    pieces = inspect.cleandoc(text or "").split("\n\n")
    return [" ".join(piece.split()) for piece in pieces]


def _lower(sentence: str) -> str:
    """A summary as ``man`` lists it: no capital, no full stop."""
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _text(words: str) -> list[str]:
    """Lines of running text that roff fills by itself."""
    pieces = textwrap.wrap(_escape(words), _WIDTH, break_long_words=False, break_on_hyphens=False)
    return [f"\\&{piece}" if piece.startswith(".") else piece for piece in pieces]


def _escape(text: str) -> str:
    """Text that roff prints as it is."""
    for character, name in (("\\", "\\e"), ("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga")):
        text = text.replace(character, name)
    return text
