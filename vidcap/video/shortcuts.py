"""What may be left out while decoding, and how to do without it where it does not hold."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Frames before a wanted time at which a key frame is looked for: what files usually reorder, and
#: more than H.264 and HEVC can (16). Every frame of reserve costs, now and then, a whole distance
#: between key frames, so the small one comes first.
RESERVES = (4, 20)


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """What may be left out.

    Attributes:
        reserve_frames: go on at the last key frame so many frames before a wanted time, without
            what lies in between; None never to jump.
        skips: leave out frames that no other frame refers to.
    """

    reserve_frames: int | None = RESERVES[0]
    skips: bool = True

    def without(self, missed: ShortcutMissedError) -> Shortcuts:
        """What is left to try once a shortcut has failed."""
        if missed.shortcut == "skips":
            return replace(self, skips=False)
        more = [reserve for reserve in RESERVES if reserve > (self.reserve_frames or 0)]
        return replace(self, reserve_frames=more[0] if more else None)


class ShortcutMissedError(Exception):
    """A shortcut may have led to other frames than plain decoding; it has to be done again."""

    shortcut: str


class SeekMissedError(ShortcutMissedError):
    """After a jump the frames were not where the index said."""

    shortcut = "jumps"


class SkipMissedError(ShortcutMissedError):
    """A frame that was left out may have been the nearest to a wanted time."""

    shortcut = "skips"
