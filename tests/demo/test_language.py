from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from vidcap.demo.language import CHANCE, DESCRIBE_PROMPTS, article, caption, questions
from vidcap.demo.scenes import World, sample_scene, truth
from vidcap.settings import DEFAULT_DESCRIBE_PROMPT


def describe(seed: int, draw: int = 0) -> str:
    return caption(sample_scene(seed), np.random.default_rng(draw))


def test_the_first_prompt_is_the_default_one() -> None:
    assert DESCRIBE_PROMPTS[0] == DEFAULT_DESCRIBE_PROMPT
    assert len(set(DESCRIBE_PROMPTS)) == len(DESCRIBE_PROMPTS)


def test_a_caption_follows_from_scene_and_generator() -> None:
    assert all(describe(seed, 3) == describe(seed, 3) for seed in range(20))


def test_phrasing_is_mostly_fixed_by_the_scene() -> None:
    """Each choice falls on the scene's own phrasing with 1 - CHANCE or a little more."""
    same, total = 0, 0
    for seed in range(60):
        openings = [describe(seed, draw).split()[0] for draw in range(20)]
        same += max(openings.count(word) for word in set(openings))
        total += len(openings)
    assert 1 - CHANCE - 0.05 < same / total < 0.97


def test_chance_varies_the_phrasing() -> None:
    assert all(len({describe(seed, draw) for draw in range(10)}) > 1 for seed in range(10))


def test_a_caption_has_overview_objects_and_closing() -> None:
    for seed in range(60):
        scene = sample_scene(seed)
        text = caption(scene, np.random.default_rng(seed))
        assert text.endswith(".")
        for sentence in text[:-1].split(". "):
            assert sentence[0].isupper()
        assert not re.search(r"[{}]|  | [.,]", text)
        assert 20 <= len(text.split()) <= 85
        positions = [text.index(f"{thing.colour} {thing.shape}") for thing in scene.objects]
        assert positions == sorted(positions)


def test_articles_agree() -> None:
    assert [article(word) for word in ("orange", "red")] == ["an", "a"]
    for seed in range(200):
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", describe(seed, seed), re.IGNORECASE)


def test_captions_of_three_objects() -> None:
    world = World(counts=(0, 0, 1), sizes=("small",))
    scene = sample_scene(1, world)
    text = caption(scene, np.random.default_rng(0)).lower()
    assert len(scene.objects) == 3
    assert "three" in text
    assert all(f"{thing.colour} {thing.shape}" in text for thing in scene.objects)


def asked(
    pattern: str, seeds: range = range(120)
) -> list[tuple[dict[str, Any], re.Match[str], str]]:
    """Truth, match of the question, and answer of every question that matches a pattern."""
    found = []
    for seed in seeds:
        scene = sample_scene(seed)
        for question, answer in questions(scene, np.random.default_rng(seed)):
            match = re.fullmatch(pattern, question)
            if match:
                found.append((truth(scene), match, answer))
    assert found
    return found


def test_questions_are_sentences_of_several_kinds() -> None:
    for seed in range(40):
        pairs = questions(sample_scene(seed), np.random.default_rng(seed))
        assert len(pairs) in (6, 7)
        assert len({question for question, _ in pairs}) == len(pairs)
        assert all(question.endswith("?") for question, _ in pairs)
        assert all(answer[0].isupper() and answer.endswith(".") for _, answer in pairs)


def test_colour_answers_are_true_and_unambiguous() -> None:
    for facts, match, answer in asked(r"(?:What|Which) color (?:is|does) the (\w+)(?: have)?\?"):
        [thing] = [thing for thing in facts["objects"] if thing["shape"] == match[1]]
        assert answer == f"The {match[1]} is {thing['colour']}."


def test_count_answers_are_true() -> None:
    for facts, _, answer in asked(r"How many objects .*"):
        number = {1: "is one object", 2: "are two objects"}[len(facts["objects"])]
        assert answer == f"There {number}."


@pytest.mark.parametrize(
    ("motion", "said"),
    [("left", "moves to the left"), ("up", "moves upwards"), ("still", "stays still")],
)
def test_motion_answers_are_true(motion: str, said: str) -> None:
    pattern = r"(?:How does|What does) the (\w+) (\w+) (?:move|do)\?"
    answers = [(facts, match, answer) for facts, match, answer in asked(pattern) if said in answer]
    assert answers
    for facts, match, _ in answers:
        names = {(t["colour"], t["shape"]): t["motion"] for t in facts["objects"]}
        assert names[match[1], match[2]] == motion


def test_who_answers_name_every_mover() -> None:
    kinds = set()
    phrases = {
        "moves to the left": "left",
        "moves to the right": "right",
        "moves upwards": "up",
        "moves downwards": "down",
        "stays still": "still",
    }
    for facts, match, answer in asked(r"What ((?:moves|stays) .*)\?", range(300)):
        movers = [t for t in facts["objects"] if t["motion"] == phrases[match[1]]]
        kinds.add(len(movers))
        assert answer.startswith("Nothing") == (not movers)
        for thing in facts["objects"]:
            assert (f"{thing['colour']} {thing['shape']}" in answer) == (thing in movers)
    assert kinds == {0, 1, 2}


def test_exists_answers_are_true() -> None:
    yes = []
    for facts, match, answer in asked(r"(?:Is there|Can you see) an? (\w+ \w+)\?"):
        there = match[1] in {f"{t['colour']} {t['shape']}" for t in facts["objects"]}
        assert answer.startswith("Yes, " if there else "No, ")
        assert match[1] in answer
        yes.append(there)
    assert 0.3 < sum(yes) / len(yes) < 0.8


def test_background_and_size_answers_are_true() -> None:
    for facts, _, answer in asked(r"What .* background .*"):
        words = re.findall(r"\w+", answer)
        assert [word for word in words if word in facts["background"]["colours"]] == (
            facts["background"]["colours"]
        )
    for facts, match, answer in asked(r"(?:How big|What size) is the (\w+ \w+)\?"):
        sizes = {f"{t['colour']} {t['shape']}": t["size"] for t in facts["objects"]}
        assert answer == f"The {match[1]} is {sizes[match[1]]}."
