"""The errors a user can meet.

Everything known to go wrong (a broken file, a missing model, an option that contradicts another) is
raised as a :class:`VidcapError` at the border where it is first understood. The command line prints
it as one line and exits with its code; a batch writes it into the record of the input and goes on.
"""

from __future__ import annotations


class VidcapError(Exception):
    """A failure that is explained to the user in one line.

    Args:
        message: what is wrong, without a trailing full stop and without the path of the input
            (the caller knows which input it was working on).
        hint: what the user can do about it, where one thing helps.
        exit_code: overrides the code of the class.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, exit_code: int | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code


class InputError(VidcapError):
    """One input cannot be used: missing, unreadable, not a video, no frame in the asked range."""

    exit_code = 1


class UsageError(VidcapError):
    """The command was called in a way that makes no sense."""

    exit_code = 2


class ModelError(VidcapError):
    """Nothing can run: a model is missing or broken, a pair does not match, memory is short."""

    exit_code = 3


class MemoryShortError(InputError):
    """The memory does not hold this input; with fewer or smaller frames it may."""


def explain(error: Exception) -> VidcapError:
    """Any exception as one that a user can read; what is not known is called an internal error."""
    if isinstance(error, VidcapError):
        return error
    if isinstance(error, MemoryError):
        return ModelError("out of memory", hint="try fewer frames: --max-frames, --max-pixels")
    if isinstance(error, ImportError):
        return ModelError(
            f"a package is missing or broken: {error}", hint="install vidcap again in a fresh venv"
        )
    words = f"internal error: {type(error).__name__}: {error}".rstrip(": ")
    return VidcapError(words, hint="run it again with --debug and report what it prints")
