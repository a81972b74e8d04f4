"""The command line: parsing and printing, nothing else.

Importing this package imports no torch, transformers, numpy or PyAV, so ``--help`` is quick.
"""

from __future__ import annotations

from vidcap.cli.app import main

__all__ = ["main"]
