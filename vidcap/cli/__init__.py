"""The command line: parsing and printing, nothing else.

Importing this package imports no torch, transformers, numpy or PyAV, so ``--help`` is quick.
"""

from __future__ import annotations

from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Entry point of the ``vidcap`` command."""
    try:
        from vidcap.cli.app import run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()
