"""The words of questions and their answers; ``vidcap.demo.answers`` reads answers back."""

from __future__ import annotations

#: What a question ends with that wants no full sentence.
BRIEF_REQUESTS: tuple[str, ...] = (
    "Answer briefly.",
    "Answer in a few words.",
    "Give a short answer.",
)

#: The plain form of each motion, as behind "does" and for several objects.
BASE_MOTIONS: dict[str, str] = {
    "still": "stay still",
    "left": "move to the left",
    "right": "move to the right",
    "up": "move upwards",
    "down": "move downwards",
    "up left": "move up and to the left",
    "up right": "move up and to the right",
    "down left": "move down and to the left",
    "down right": "move down and to the right",
    "circling": "go round and round",
    "bouncing": "bounce back and forth",
    "growing": "grow",
    "shrinking": "shrink",
}
#: Answers in a few words to how something moves.
SHORT_MOTIONS: dict[str, str] = {
    "still": "It stays still",
    "left": "To the left",
    "right": "To the right",
    "up": "Upwards",
    "down": "Downwards",
    "up left": "Upwards and to the left",
    "up right": "Upwards and to the right",
    "down left": "Downwards and to the left",
    "down right": "Downwards and to the right",
    "circling": "Round and round",
    "bouncing": "Back and forth",
    "growing": "It grows",
    "shrinking": "It shrinks",
}
#: Directions that part of a slanting motion; "what moves to the left?" is not asked beside one.
PARTS: dict[str, tuple[str, ...]] = {
    slant: tuple(slant.split()) for slant in ("up left", "up right", "down left", "down right")
}

#: What happens to an object, in third person and in the plain form.
EVENT_CLAUSES: dict[str, tuple[str, str]] = {
    "appears": ("appears", "appear"),
    "disappears": ("disappears", "disappear"),
    "changes colour": ("changes its color", "change its color"),
}

COLOUR_QUESTIONS = ("What color is the {shape}{when}?", "Which color does the {shape} have{when}?")
BACKGROUND_QUESTIONS = ("What color is the background?", "Which color does the background have?")
COUNT_QUESTIONS = ("How many objects are there?", "How many objects can be seen?")
MOTION_QUESTIONS = ("How does the {name} move?", "What does the {name} do?")
FIRST_EVENT_QUESTIONS = ("What happens {which}?", "Which event comes {which}?")
CHOICE_QUESTIONS = ("What happens {which}: the {one} {does} or the {other} {did}?",)
EXISTS_QUESTIONS = ("Is there {a} {name}?", "Can you see {a} {name}?")
NOT_EXISTS_QUESTIONS = ("Is there no {name}?", "Is it true that there is no {name}?")
WHEN_QUESTIONS = (
    "When does the {name} {do}?",
    "After how many seconds does the {name} {do}?",
    "At what time does the {name} {do}?",
)
