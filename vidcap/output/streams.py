"""The process's own output streams: safe to write any text to, and quiet when the reader leaves."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from vidcap.errors import VidcapError


class OutputClosed(BaseException):
    """Nobody reads standard output any more (``| head -1``).

    Like KeyboardInterrupt it is no error of the work under way, so it does not derive from
    Exception: nothing between the writer and the command line may take it for a failed input.
    """


class OutputError(VidcapError):
    """Standard output cannot be written, the disk is full for example."""

    exit_code = 3

    def __init__(self, error: OSError):
        super().__init__(f"cannot write the output: {error.strerror or error}")


class GuardedOutput(io.TextIOWrapper):
    """A text stream that tells a reader who left from every other failure.

    Raises:
        OutputClosed: where a plain stream has a broken pipe.
        OutputError: where it fails in another way.
    """

    def write(self, text: str) -> int:
        with _explained():
            return super().write(text)

    def flush(self) -> None:
        with _explained():
            super().flush()


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise OutputClosed from None
    except OSError as error:
        raise OutputError(error) from error


class ClosedOutput(io.StringIO):
    """Stands in for a standard output that was closed before the process began."""

    def write(self, text: str) -> int:
        raise OutputClosed


def guard_standard_streams() -> None:
    """Replaces stdout by a guarded stream and lets both streams take any character.

    A locale that knows only ASCII gets UTF-8; on other narrow code pages, characters that do not
    exist there are printed as ``?`` on stdout and as escapes on stderr. What a closed standard
    error would say is dropped.
    """
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    elif isinstance(sys.stdout, io.TextIOWrapper):
        encoding = _usable_encoding(sys.stdout.encoding)
        line_buffering = sys.stdout.line_buffering
        sys.stdout = GuardedOutput(
            sys.stdout.detach(), encoding=encoding, errors="replace", line_buffering=line_buffering
        )
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    elif isinstance(sys.stderr, io.TextIOWrapper):
        encoding = _usable_encoding(sys.stderr.encoding)
        sys.stderr.reconfigure(encoding=encoding, errors="backslashreplace")


def discard_stdout() -> None:
    """Sends what is still buffered for a closed stdout nowhere, so that exit stays quiet."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, descriptor)
    os.close(sink)


def is_unicode(encoding: str | None) -> bool:
    """Whether a stream with this encoding can carry every character."""
    return codecs.lookup(encoding or "utf-8").name.startswith("utf")


def _usable_encoding(encoding: str) -> str:
    return "utf-8" if codecs.lookup(encoding).name == "ascii" else encoding
