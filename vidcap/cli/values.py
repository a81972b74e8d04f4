"""Values as they are typed: times, files, and texts that may stand in a file."""

from __future__ import annotations

import re
from pathlib import Path

from vidcap.errors import UsageError

_CLOCK = re.compile(r"(?:(\d+):)?([0-5]?\d):([0-5]?\d(?:\.\d+)?)")
_UNITS = re.compile(r"(?=.)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_SECONDS = re.compile(r"-?(\d+(\.\d*)?|\.\d+)")


#: What the parser says of a value, and how vidcap says it.
_PARSER_WORDS = (
    (re.compile(r"Input should be a valid integer\b.*"), "not a whole number"),
    (re.compile(r"Input should be a valid number\b.*"), "not a number"),
    (re.compile(r"Input should be a valid boolean\b.*"), "neither yes nor no"),
    (re.compile(r"Input should be greater than or equal to "), "must be at least "),
    (re.compile(r"Input should be less than or equal to "), "must be at most "),
)


def plain_words(message: str) -> str:
    """The parser's complaint about a value in words for people."""
    message = message.rstrip(".").replace("Value error, ", "")
    for pattern, words in _PARSER_WORDS:
        message = pattern.sub(words, message)
    return message


def parse_time(text: str, what: str) -> float:
    """Seconds from ``90``, ``90.5``, ``1:30`` or ``00:01:30.5``.

    Args:
        text: as typed.
        what: what it is called in an error.

    Raises:
        UsageError: for anything else.
    """
    clock = _CLOCK.fullmatch(text.strip())
    if clock:
        hours, minutes, seconds = clock.groups()
        return int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds)
    if _SECONDS.fullmatch(text.strip()):
        return float(text)
    raise UsageError(f"{what} takes seconds or HH:MM:SS, not '{text}'")


def parse_duration(text: str, what: str) -> float:
    """Seconds from ``30``, ``30s``, ``2m``, ``1h30m``, ``1:30`` or ``00:01:30.5``.

    Args:
        text: as typed.
        what: what it is called in an error.

    Raises:
        UsageError: for anything else.
    """
    units = _UNITS.fullmatch(text.strip().lower())
    if units:
        hours, minutes, seconds = units.groups()
        return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)
    try:
        return parse_time(text, what)
    except UsageError as error:
        raise UsageError(
            f"{what} takes a duration such as 30s, 2m or 1:30, not '{text}'"
        ) from error


def read_text(value: str, what: str) -> str:
    """The value itself, or the content of FILE where it is ``@FILE``.

    Args:
        value: as typed.
        what: what it is called in an error.

    Raises:
        UsageError: where the file cannot be read as UTF-8, or the text is empty.
    """
    text = value
    if value.startswith("@"):
        try:
            text = Path(value[1:]).read_text("utf-8").strip()
        except UnicodeDecodeError as error:
            raise UsageError(f"{what} {value}: not UTF-8 text") from error
        except OSError as error:
            raise UsageError(f"{what} {value}: {error.strerror or error}") from error
    if not text.strip():
        raise UsageError(f"{what} is empty")
    return text


def check_new_file(path: Path, what: str) -> None:
    """Find out before the work whether a file can be put somewhere.

    Args:
        path: where.
        what: the option that says so.

    Raises:
        UsageError: it cannot.
    """
    if path.is_dir():
        raise UsageError(f"{what} takes a file, {path} is a folder")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{what}: there is no folder {path.parent}")
