"""The words of captions and answers, as data: every fact has several phrasings.

``vidcap.demo.score`` reads these phrasings back; a new one has to be readable there (its tests read
the captions of hundreds of scenes).
"""

from __future__ import annotations

NUMBERS: tuple[str, ...] = ("no", "one", "two", "three", "four")

SIZE_WORDS: dict[str, tuple[str, ...]] = {
    "small": ("small", "little"),
    "large": ("large", "big"),
}

#: Third person singular; the first phrase of each motion is the one that answers use.
MOTION_PHRASES: dict[str, tuple[str, ...]] = {
    "still": ("stays still", "does not move", "rests", "remains motionless", "stays in place"),
    "left": (
        "moves to the left",
        "drifts leftwards",
        "slides to the left",
        "travels leftwards",
        "glides to the left",
    ),
    "right": (
        "moves to the right",
        "drifts rightwards",
        "slides to the right",
        "travels rightwards",
        "glides to the right",
    ),
    "up": ("moves upwards", "rises", "floats upwards", "climbs", "goes up"),
    "down": ("moves downwards", "sinks", "drifts downwards", "falls", "goes down"),
    "up left": (
        "moves up and to the left",
        "rises to the left",
        "drifts upwards and leftwards",
        "slides diagonally up to the left",
        "climbs leftwards",
    ),
    "up right": (
        "moves up and to the right",
        "rises to the right",
        "drifts upwards and rightwards",
        "slides diagonally up to the right",
        "climbs rightwards",
    ),
    "down left": (
        "moves down and to the left",
        "sinks to the left",
        "drifts downwards and leftwards",
        "slides diagonally down to the left",
        "falls leftwards",
    ),
    "down right": (
        "moves down and to the right",
        "sinks to the right",
        "drifts downwards and rightwards",
        "slides diagonally down to the right",
        "falls rightwards",
    ),
    "circling": (
        "goes round and round",
        "circles on the spot",
        "keeps circling",
        "runs in a loop",
    ),
    "bouncing": (
        "bounces back and forth",
        "moves back and forth",
        "swings to and fro",
        "keeps bouncing",
    ),
    "growing": ("grows", "gets bigger", "becomes larger", "swells", "expands"),
    "shrinking": ("shrinks", "gets smaller", "becomes smaller", "contracts", "keeps shrinking"),
}

#: The motions that a plain caption can tell.
SIMPLE_MOTIONS: tuple[str, ...] = ("still", "left", "right", "up", "down")

PLACE_PHRASES: tuple[str, ...] = (
    "in the {place}",
    "in the {place} of the frame",
    "in the {place} part of the picture",
)

MOVING_TAILS: tuple[str, ...] = (
    "",
    " at a steady pace",
    " in a straight line",
    " from start to end",
    " the whole time",
)
STILL_TAILS: tuple[str, ...] = ("", " the whole time", " from start to end", " until the end")

OVERVIEWS: tuple[str, ...] = (
    "The video shows {count} {noun} on {background}.",
    "{Count} {noun} can be seen in front of {background}.",
    "In this clip, there {be} {count} {noun} on {background}.",
    "The clip has {count} {noun}. Behind, there is {background}.",
    "Against {background}, {count} {noun} {appear}.",
    "This is a short video of {count} {noun} in front of {background}.",
)
NOUNS: tuple[str, ...] = ("object", "shape", "figure")

PLAIN_BACKGROUNDS: tuple[str, ...] = (
    "a plain {first} background",
    "a {first} background",
    "a background that is {first} all over",
)
GRADIENT_BACKGROUNDS: tuple[str, ...] = (
    "a background that fades from {first} {start} to {last} {end}",
    "a gradient background, {first} {start} and {last} {end}",
    "a background that turns from {first} {start} into {last} {end}",
)
AXIS_ENDS: dict[str, tuple[str, str]] = {
    "vertical": ("at the top", "at the bottom"),
    "horizontal": ("on the left", "on the right"),
}

OBJECT_SENTENCES: tuple[str, ...] = (
    "{a_size} {size} {colour} {shape} {motion}.",
    "there is {a_size} {size} {colour} {shape}, and it {motion}.",
    "{a_size} {size} {colour} {shape} appears, which {motion}.",
    "we see {a_colour} {colour} {shape}, {size} in size, that {motion}.",
    "{a_colour} {colour} {shape} of {size} size {motion}.",
)
FIRST_OPENERS: tuple[str, ...] = ("", "", "", "to begin with, ", "first, ")
LATER_OPENERS: tuple[str, ...] = ("", "beside it, ", "next, ", "in addition, ", "apart from that, ")
SINGLE_CLOSINGS: tuple[str, ...] = (
    "Nothing else is visible.",
    "No other {noun} appears.",
    "Apart from the {name}, the picture is empty.",
    "The {name} is the only thing to be seen.",
)

RELATION_SENTENCES: dict[str, tuple[str, ...]] = {
    "larger": (
        "The {first} is larger than the {second}.",
        "The {second} is smaller than the {first}.",
        "Compared in size, the {first} is bigger than the {second}.",
        "The {first} takes up more room than the {second}.",
    ),
    "above": (
        "At the start, the {first} is above the {second}.",
        "The {second} starts below the {first}.",
        "In the first frame, the {first} is higher than the {second}.",
    ),
    "left": (
        "At the start, the {first} is left of the {second}.",
        "The {second} starts right of the {first}.",
        "In the first frame, the {first} is to the left of the {second}.",
    ),
    "same": (
        "The {first} and the {second} move in the same direction.",
        "Both the {first} and the {second} go the same way.",
    ),
    "opposite": (
        "The {first} and the {second} move in opposite directions.",
        "The {first} goes the opposite way of the {second}.",
    ),
    "both still": (
        "Neither the {first} nor the {second} moves.",
        "Both the {first} and the {second} keep their place.",
    ),
}
