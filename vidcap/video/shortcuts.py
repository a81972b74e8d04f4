"""What may be left out while decoding, and how to do without it where it does not hold."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """What may be left out.

    Attributes:
        jumps: go on at key frames, without what lies before them.
        skips: leave out frames that no other frame refers to.
    """

    jumps: bool = True
    skips: bool = True

    def without(self, missed: ShortcutMissedError) -> Shortcuts:
        """What is left to try once a shortcut has failed."""
        return replace(self, **{missed.shortcut: False})


class ShortcutMissedError(Exception):
    """A shortcut may have led to other frames than plain decoding; it has to be done again."""

    shortcut: str


class SeekMissedError(ShortcutMissedError):
    """After a jump the frames were not where the index said."""

    shortcut = "jumps"


class SkipMissedError(ShortcutMissedError):
    """A frame that was left out may have been the nearest to a wanted time."""

    shortcut = "skips"
