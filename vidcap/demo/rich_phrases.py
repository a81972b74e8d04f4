"""The words of captions of rich scenes: events, moving in more ways, patterned backgrounds.

As ``vidcap.demo.phrases``; ``vidcap.demo.reading`` and ``vidcap.demo.events`` read them back.
"""

from __future__ import annotations

#: What backgrounds with a pattern are called; the colours of a checker have no order.
PATTERNED_BACKGROUNDS: dict[str, tuple[str, ...]] = {
    "checker": (
        "a checkered background of {first} and {last}",
        "a {first} and {last} checkered background",
        "a checkerboard background in {first} and {last}",
        "a background with {first} and {last} checks",
    ),
    "noise": (
        "a grainy {first} background",
        "a noisy {first} background",
        "a speckled {first} background",
        "a background of {first} grain",
    ),
}

OVERVIEWS: tuple[str, ...] = (
    "The video shows {count} {noun} on {background}.",
    "{Count} {noun} can be seen in front of {background}.",
    "In this clip, there {be} {count} {noun} on {background}.",
    "The clip has {count} {noun}. Behind, there is {background}.",
    "In front of {background}, the clip shows {count} {noun}.",
    "This is a short video of {count} {noun} in front of {background}.",
    "The scene is made of {count} {noun} and {background}.",
)

#: Sentences that say nothing about the objects; for captions that would be short without.
ASIDES: tuple[str, ...] = (
    "",
    "",
    "The camera does not move.",
    "The camera stays where it is.",
    "The view is the same all along.",
    "The scene is simple.",
)

SIZED_THINGS: tuple[str, ...] = (
    "{a_size} {size} {colour} {shape}",
    "{a_size} {size} {colour} {shape}",
    "{a_colour} {colour} {shape} of {size} size",
)

OBJECT_SENTENCES: tuple[str, ...] = (
    "{thing} {motion}.",
    "there is {thing}, and it {motion}.",
    "there is {thing} that {motion}.",
    "we see {thing} that {motion}.",
    "the clip shows {thing}, which {motion}.",
    "{thing} is there and {motion}.",
)
#: Where the place comes first.
PLACED_SENTENCES: tuple[str, ...] = (
    "{place}, {thing} {motion}.",
    "{place}, there is {thing} that {motion}.",
    "{place}, we see {thing}, which {motion}.",
)
FIRST_OPENERS: tuple[str, ...] = ("", "", "to begin with, ", "first, ")
NEXT_OPENERS: tuple[str, ...] = ("", "next, ", "in addition, ", "apart from that, ", "as well, ")
#: For objects that are not there from the start.
LATE_OPENERS: tuple[str, ...] = ("later, ", "later on, ", "afterwards, ", "in the course of it, ")

#: What follows the motion, by the kind of motion; true also of what moves only part of the time.
TAILS: dict[str, tuple[str, ...]] = {
    "still": ("", "", " all along", " as long as it can be seen"),
    "straight": ("", "", " in a straight line", " without turning", " through the picture"),
    "around": ("", "", " all along", " without a pause", " again and again"),
    "resizing": ("", "", " bit by bit", " slowly", " step by step"),
}

#: What happens to an object, in the third person; the first phrase is the one that answers use.
EVENT_VERBS: dict[str, tuple[str, ...]] = {
    "appears": ("appears", "comes into view", "shows up", "becomes visible"),
    "disappears": ("disappears", "vanishes", "goes away", "is gone"),
    "changes colour": (
        "turns {new}",
        "changes its color to {new}",
        "becomes {new}",
        "changes from {old} to {new}",
    ),
}
#: The first one is the one that answers use.
TIMES: tuple[str, ...] = (
    "after {n} {seconds}",
    "{n} {seconds} in",
    "at about {n} {seconds}",
    "about {n} {seconds} into the clip",
    "once {n} {seconds} have passed",
)
EVENT_SENTENCES: tuple[str, ...] = (
    "{when}, the {name} {verb}.",
    "the {name} {verb} {when}.",
    "{when}, we see that the {name} {verb}.",
    "it is the {name} that {verb} {when}.",
)
LATER_EVENT_OPENERS: tuple[str, ...] = ("", "", "then, ", "later, ", "later on, ", "next, ")

#: Closings of scenes of several objects of which no two are there at the same time.
OPEN_CLOSINGS: tuple[str, ...] = (
    "Nothing else happens.",
    "That is all there is to see.",
    "This is where the clip ends.",
)
#: Relations at the start where one of the two is not there yet.
LATE_RELATION_SENTENCES: dict[str, tuple[str, ...]] = {
    "above": (
        "Once both are there, the {first} is above the {second}.",
        "When both can be seen, the {second} is first below the {first}.",
    ),
    "left": (
        "Once both are there, the {first} is to the left of the {second}.",
        "When both can be seen, the {second} is first to the right of the {first}.",
    ),
}

#: One sentence about everything: {things} is a list of "a red circle that rises".
BRIEF_SENTENCES: tuple[str, ...] = (
    "In front of {background}, we see {things}.",
    "On {background} there {be} {things}.",
    "The clip shows {things} in front of {background}.",
    "There {be} {things} on {background}.",
)
BRIEF_THINGS: tuple[str, ...] = (
    "{a_colour} {colour} {shape} that {motion}",
    "{a_colour} {colour} {shape}, which {motion}",
)
