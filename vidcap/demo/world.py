"""What a rendered scene is made of: palettes, the settings of a world, and the scene itself.

A :class:`World` says what may occur; ``vidcap.demo.scenes`` draws a :class:`Scene` from it and
``vidcap.demo.render`` turns that into frames. Names used here are the words of the captions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vidcap.demo.objects import RGB, Background, Scene, SceneObject, Swing

__all__ = [
    "ALL_MOTIONS",
    "BACKGROUND_COLOURS",
    "BACKGROUND_KINDS",
    "CLASHES",
    "COLOURS",
    "DEMO_WORLD",
    "DEMO_WORLD_OF_ANY_LENGTH",
    "DIRECTIONS",
    "EVENT_KINDS",
    "FIRST_WORLD",
    "LARGE_PX",
    "LONG_WORLD",
    "MOTIONS",
    "PLACED_MOTIONS",
    "PLACES",
    "RESIZING",
    "RGB",
    "RICH_WORLD",
    "SHAPES",
    "SIZES",
    "Background",
    "Scene",
    "SceneObject",
    "Swing",
    "World",
]

#: Colours of objects.
COLOURS: dict[str, RGB] = {
    "red": (222, 36, 36),
    "orange": (246, 138, 20),
    "yellow": (246, 228, 48),
    "green": (48, 172, 64),
    "cyan": (64, 214, 226),
    "blue": (44, 92, 232),
    "purple": (140, 56, 188),
    "pink": (252, 142, 196),
    "brown": (136, 82, 38),
    "white": (246, 246, 246),
}

#: Colours of backgrounds.
BACKGROUND_COLOURS: dict[str, RGB] = {
    "black": (16, 16, 18),
    "gray": (126, 126, 126),
    "navy": (20, 28, 84),
    "maroon": (88, 18, 36),
    "teal": (8, 92, 92),
    "beige": (222, 206, 170),
}

#: Object colours that would be hard to see on a background.
CLASHES: dict[str, frozenset[str]] = {
    "black": frozenset(),
    "gray": frozenset(),
    "navy": frozenset({"blue", "purple"}),
    "maroon": frozenset({"brown", "red"}),
    "teal": frozenset({"green", "blue"}),
    "beige": frozenset({"white", "yellow"}),
}

SHAPES: tuple[str, ...] = (
    "circle",
    "square",
    "triangle",
    "star",
    "cross",
    "ring",
    "diamond",
    "heart",
)

#: Least and greatest extent in pixels, smallest size first.
SIZES: dict[str, tuple[float, float]] = {"small": (29.0, 33.0), "large": (49.0, 55.0)}

#: Extent from which an object counts as large.
LARGE_PX = 41.0

#: Unit vector of each motion of the first world, in image coordinates (y grows downwards).
MOTIONS: dict[str, tuple[float, float]] = {
    "still": (0.0, 0.0),
    "left": (-1.0, 0.0),
    "right": (1.0, 0.0),
    "up": (0.0, -1.0),
    "down": (0.0, 1.0),
}

_SLANT = 0.5**0.5

#: Unit vector of each motion along a straight line.
DIRECTIONS: dict[str, tuple[float, float]] = {
    **MOTIONS,
    "up left": (-_SLANT, -_SLANT),
    "up right": (_SLANT, -_SLANT),
    "down left": (-_SLANT, _SLANT),
    "down right": (_SLANT, _SLANT),
}

#: Motions that change the extent: its sign.
RESIZING: dict[str, int] = {"growing": 1, "shrinking": -1}

#: Every motion that a world may have.
ALL_MOTIONS: tuple[str, ...] = (*DIRECTIONS, "circling", "bouncing", *RESIZING)

#: Motions of objects that stay where they are, so that captions name their place.
PLACED_MOTIONS: tuple[str, ...] = ("still", "circling", *RESIZING)

#: What may happen to an object in the course of a clip.
EVENT_KINDS: tuple[str, ...] = ("appears", "disappears", "changes colour")

BACKGROUND_KINDS: tuple[str, ...] = ("plain", "gradient", "checker", "noise")

#: Where an object that stays in one place is: sign of its offset from the middle of the frame.
PLACES: dict[str, tuple[int, int]] = {
    "upper left": (-1, -1),
    "upper right": (1, -1),
    "lower left": (-1, 1),
    "lower right": (1, 1),
    "middle": (0, 0),
}


@dataclass(frozen=True, slots=True)
class World:
    """What may occur in a scene, and how often.

    Attributes:
        counts: weights of scenes with 1, 2, 3 ... objects.
        shapes, colours, sizes, motions, places: names that may be drawn, all equally often; a name
            that stands there twice comes up twice as often.
        background_kinds: some of ``BACKGROUND_KINDS``.
        background_colours: names that may be drawn for backgrounds.
        frame_sizes: (width, height, weight) of each frame size, in pixels.
        durations_s: lengths that may be drawn.
        min_travel_px: least distance that a moving object covers in the clip.
        margin_px: least distance between an object and the edge of the frame.
        min_step_px: least horizontal distance between two objects at the start, so that their
            order from left to right can be seen.
        lengths: (width, height, duration_s, weight) of each kind of clip. Where it is not empty
            it stands for ``frame_sizes`` and ``durations_s``, which combine freely.
        event_counts: weights of scenes with 0, 1, 2 ... events; no object has two.
        event_kinds: some of ``EVENT_KINDS``, all equally often.
        speed_px_s: least and greatest speed of objects that move along a line; they rest where
            they find no room to go on. None: they cover a random distance in exactly the clip.
        middle_share, aside_share: the share of the frame by which an object in the middle may be
            off the middle lines, and by which one elsewhere is at least, where that is more than
            a few pixels.
        tries: how often looks are drawn, paths for them, and the path of one object, before a
            scene gets fewer objects. More tries make crowded scenes less rare, and slower to draw.
    """

    counts: tuple[float, ...] = (0.35, 0.65)
    shapes: tuple[str, ...] = SHAPES
    colours: tuple[str, ...] = tuple(COLOURS)
    sizes: tuple[str, ...] = tuple(SIZES)
    motions: tuple[str, ...] = tuple(MOTIONS)
    places: tuple[str, ...] = tuple(PLACES)
    background_kinds: tuple[str, ...] = ("plain", "gradient")
    background_colours: tuple[str, ...] = tuple(BACKGROUND_COLOURS)
    frame_sizes: tuple[tuple[int, int, float], ...] = (
        (112, 112, 0.7),
        (140, 112, 0.15),
        (112, 140, 0.15),
    )
    durations_s: tuple[float, ...] = (3.0, 3.5, 4.0, 4.5, 5.0)
    min_travel_px: float = 32.0
    margin_px: float = 2.0
    min_step_px: float = 12.0
    lengths: tuple[tuple[int, int, float, float], ...] = ()
    event_counts: tuple[float, ...] = (1.0,)
    event_kinds: tuple[str, ...] = EVENT_KINDS
    speed_px_s: tuple[float, float] | None = None
    middle_share: float = 0.0
    aside_share: float = 0.0
    tries: tuple[int, int, int] = (24, 12, 24)

    def combinations(self) -> tuple[tuple[int, int, float, float], ...]:
        """(width, height, duration_s, weight) of every kind of clip, however they are given."""
        return self.lengths or tuple(
            (width, height, duration_s, weight)
            for width, height, weight in self.frame_sizes
            for duration_s in self.durations_s
        )


#: One or two objects, five motions: what the first demo pair knows.
FIRST_WORLD = World()

_CELL_PX = 28

_SHORT_SIZES: tuple[tuple[int, int, float], ...] = (
    (112, 112, 0.22),
    (140, 112, 0.13),
    (112, 140, 0.13),
    (140, 140, 0.1),
    (168, 112, 0.07),
    (112, 168, 0.07),
    (168, 168, 0.08),
    (224, 140, 0.06),
    (140, 224, 0.06),
    (224, 224, 0.08),
)

_LONG_SIZES: tuple[tuple[int, int, float], ...] = (
    (224, 224, 1.0),
    (280, 224, 1.0),
    (224, 280, 1.0),
    (336, 252, 1.0),
    (252, 336, 1.0),
    (448, 252, 1.0),
    (252, 448, 1.0),
    (336, 336, 1.0),
    (448, 336, 1.0),
    (448, 448, 1.0),
)


def _lengths(
    sizes: tuple[tuple[int, int, float], ...],
    durations_s: tuple[float, ...],
    shares: tuple[tuple[int, float], ...],
) -> tuple[tuple[int, int, float, float], ...]:
    """Sizes and durations combined, each weighted by the first of ``shares`` (most cells of a clip
    at one layer a second, factor) that it fits in; the rest is left out."""
    combined = []
    for width, height, weight in sizes:
        for duration_s in durations_s:
            tokens = duration_s * (width // _CELL_PX) * (height // _CELL_PX)
            share = next((factor for most, factor in shares if tokens <= most), 0.0)
            if share:
                combined.append((width, height, duration_s, weight * share))
    return tuple(combined)


#: Up to four objects, all motions, events: about 64 to 500 visual tokens at two frames a second.
RICH_WORLD = World(
    # Small frames often have no room for the third and fourth object.
    counts=(0.15, 0.3, 0.3, 0.25),
    # What rests gives the eye something to hold on to, and captions a place to name.
    motions=("still", "still", *ALL_MOTIONS),
    background_kinds=BACKGROUND_KINDS,
    lengths=_lengths(_SHORT_SIZES, (4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0), ((512, 1.0),)),
    event_counts=(0.25, 0.35, 0.25, 0.15),
    speed_px_s=(7.0, 20.0),
    middle_share=0.04,
    aside_share=0.1,
    tries=(12, 2, 12),
)

#: The same on larger frames and for longer: most clips have 500 to 2,000 visual tokens.
LONG_WORLD = replace(
    RICH_WORLD,
    lengths=_lengths(
        _LONG_SIZES,
        (8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 32.0),
        ((499, 0.0), (2000, 1.0), (4200, 0.25)),
    ),
)

#: What the pair that comes with vidcap knows: everyday clips, and clips of any length.
DEMO_WORLD = RICH_WORLD
DEMO_WORLD_OF_ANY_LENGTH = replace(RICH_WORLD, lengths=RICH_WORLD.lengths + LONG_WORLD.lengths)
