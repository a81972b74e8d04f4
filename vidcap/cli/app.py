"""The app: its commands, and what becomes of every way a run can end."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, NoReturn

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]
from typer.core import TyperGroup

from vidcap import __version__
from vidcap.cli import models
from vidcap.cli.ask import ask
from vidcap.cli.bench import bench
from vidcap.cli.binding import grouped
from vidcap.cli.config import configured
from vidcap.cli.console import Console
from vidcap.cli.demo import demo
from vidcap.cli.describe import describe
from vidcap.cli.doctor import doctor
from vidcap.cli.plan import plan
from vidcap.cli.signals import EXIT_CLOSED_PIPE, EXIT_INTERRUPTED
from vidcap.cli.spreading import with_ray_address
from vidcap.cli.values import plain_words
from vidcap.errors import UsageError
from vidcap.output.streams import (
    OutputClosed,
    OutputError,
    discard_stdout,
    guard_standard_streams,
)

#: By this variable a completion script asks for words instead of running a command.
COMPLETE_VARIABLE = "_VIDCAP_COMPLETE"


class VidcapGroup(TyperGroup):
    """Turns every end of a run into an exit code, and every error into one line."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Runs the command line; always ends in SystemExit."""
        words = with_ray_address(sys.argv[1:] if args is None else args)
        if os.environ.get(COMPLETE_VARIABLE):
            # Without options to install completions, Typer leaves the shells unknown.
            completion_init()
        run = partial(super().main, words, "vidcap", complete_var, False, **extra)
        raise SystemExit(_ending(run, debug=_wants_debug(words)))


def _print_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app = typer.Typer(
    cls=VidcapGroup,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="describe")(configured(grouped(describe)))
app.command(name="ask")(configured(grouped(ask)))
app.command(name="demo")(configured(grouped(demo)))
app.command(name="bench")(configured(grouped(bench)))
app.command(name="plan")(configured(grouped(plan)))
app.command(name="doctor")(configured(grouped(doctor)))

models_app = typer.Typer(
    help="Pair presets, methods and models: what there is, what is here.",
    invoke_without_command=True,
    callback=_print_help,
)
models_app.command(name="list")(configured(grouped(models.list_models)))
models_app.command(name="pull")(configured(grouped(models.pull)))
models_app.command(name="path")(configured(grouped(models.path)))
models_app.command(name="show")(configured(grouped(models.show)))
app.add_typer(models_app, name="models")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vidcap {__version__}")
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    help="Describes videos and answers questions about them.\n\n"
    "A small draft model writes ahead and the target model checks many of its words in one call: "
    "the text of the target alone, sooner.",
)
def vidcap(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Prints help where no command is named."""
    _print_help(context)


def run() -> NoReturn:
    """Runs the command line of this process; always ends in SystemExit."""
    guard_standard_streams()
    code = 0
    try:
        app()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    try:
        sys.stdout.flush()
    except OutputClosed:
        code = EXIT_CLOSED_PIPE
        discard_stdout()
    except OutputError as error:
        code = code or Console().error(error).exit_code
        discard_stdout()
    if code == EXIT_INTERRUPTED:
        # Threads that still decode or load must not keep a stopped program alive.
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)


def _ending(run: Callable[[], Any], *, debug: bool) -> int:
    console = Console(debug=debug)
    try:
        code = run()
    except OutputClosed:
        return EXIT_CLOSED_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except typer.TyperException as error:
        return console.error(_usage_error(error)).exit_code
    except typer.Abort:
        return 1
    except Exception as error:
        return console.error(error).exit_code
    return code if isinstance(code, int) else 0


def _usage_error(error: typer.TyperException) -> UsageError:
    """The parser's complaint in our form: one line, and where to look."""
    words = plain_words(error.format_message())
    words = re.sub(r" \(env var: '(\w+)'\)", _name_variable, words)
    words, _, possible = words.partition(" (Possible options: ")
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "vidcap"
    hint = f"did you mean {possible.rstrip(')')}?" if possible else f"see {command} --help"
    return UsageError(words[:1].lower() + words[1:], hint=hint)


def _name_variable(match: re.Match[str]) -> str:
    """Keeps the name of a variable in a message only where it is set and so may be to blame."""
    return match[0] if os.environ.get(match[1]) else ""


def _wants_debug(words: Sequence[str]) -> bool:
    options = words[: words.index("--")] if "--" in words else words
    variable = os.environ.get("VIDCAP_DEBUG", "0").lower()
    return "--debug" in options or variable in ("1", "true", "t", "yes", "y", "on")
