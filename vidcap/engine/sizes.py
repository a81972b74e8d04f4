"""Sizes that the engine keeps to and estimates of its memory count with. Imports no torch."""

from __future__ import annotations

#: Largest prefix, keys and values of all layers, of which a copy lies in front of the tail.
LARGEST_COPIED_BYTES = 1 << 25
