from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from vidcap.demo.language import QUESTION_KINDS, Question, practice, questions, questions_of
from vidcap.demo.phrases import MOTION_PHRASES, NUMBERS
from vidcap.demo.question_phrases import BASE_MOTIONS, BRIEF_REQUESTS, SHORT_MOTIONS
from vidcap.demo.relations import meeting_s, where
from vidcap.demo.scenes import FIRST_WORLD, sample_scene, truth
from vidcap.demo.world import ALL_MOTIONS, RICH_WORLD

Facts = dict[str, Any]


@pytest.fixture(scope="module")
def asked() -> list[tuple[Facts, Question]]:
    """Questions about many rich scenes, several draws for each."""
    found = []
    for seed in range(300):
        facts = truth(sample_scene(seed, RICH_WORLD))
        for draw in range(4):
            found += [
                (facts, one) for one in questions_of(facts, np.random.default_rng((seed, draw)))
            ]
    return found


def full(asked: list[tuple[Facts, Question]], kind: str) -> list[tuple[Facts, str, str]]:
    """Truth, question and answer of the questions of a kind that want a full sentence."""
    return [(f, q.text, q.answer) for f, q in asked if q.kind == kind and q.text.endswith("?")]


def named(facts: Facts) -> dict[str, Facts]:
    return {f"{thing['colour']} {thing['shape']}": thing for thing in facts["objects"]}


def names(text: str, facts: Facts) -> list[str]:
    """The objects of a scene that a text names, in the order of the text."""
    found = [
        (match.start(), name) for name in named(facts) for match in re.finditer(name, text.lower())
    ]
    return [name for _, name in sorted(found)]


def test_every_motion_has_its_words() -> None:
    assert set(ALL_MOTIONS) == set(MOTION_PHRASES) == set(BASE_MOTIONS) == set(SHORT_MOTIONS)


def test_every_kind_that_a_scene_allows_is_asked_once() -> None:
    for seed in range(80):
        scene = sample_scene(seed, RICH_WORLD)
        facts = truth(scene)
        kinds = [one.kind for one in questions(scene, np.random.default_rng(seed))]
        assert kinds == [kind for kind in QUESTION_KINDS if kind in kinds]
        assert {"colour", "count", "motion", "yes/no"} <= set(kinds)
        assert ("when" in kinds) == bool(facts["events"])
        assert "compare" not in kinds or len(facts["objects"]) > 1
        assert "compare" in kinds or all(
            thing["size"] is None or len(facts["objects"]) == 1 for thing in facts["objects"]
        )
        assert "order" in kinds or len(facts["events"]) < 2


def test_questions_about_the_first_world_need_no_events() -> None:
    kinds = Counter(
        one.kind
        for seed in range(60)
        for one in questions(sample_scene(seed, FIRST_WORLD), np.random.default_rng(seed))
    )
    assert kinds["when"] == kinds["order"] == 0
    assert kinds["colour"] == kinds["yes/no"] == 60
    assert min(kinds["relation"], kinds["compare"]) > 20


def test_answers_are_short_where_that_is_asked_for(asked: list[tuple[Facts, Question]]) -> None:
    brief = 0
    for _, one in asked:
        assert one.answer[0].isupper()
        assert one.answer.endswith(".")
        assert not re.search(r"[{}]|  |\bNone\b(?!\.)", one.text + one.answer)
        brief += one.text.endswith(BRIEF_REQUESTS)
        if one.text.endswith(BRIEF_REQUESTS):
            assert len(one.answer.split()) <= 12
        else:
            assert len(one.answer.split()) >= (2 if one.answer.startswith("Nothing") else 3)
    assert 0.35 < brief / len(asked) < 0.45


def test_colours_are_true(asked: list[tuple[Facts, Question]]) -> None:
    changed = 0
    for facts, text, answer in full(asked, "colour"):
        if "background" in text:
            expected = " and ".join(facts["background"]["colours"])
            assert answer == f"The background is {expected}."
            continue
        [thing] = [thing for thing in facts["objects"] if re.search(rf"\b{thing['shape']}\b", text)]
        late = "at the end" in text and thing["becomes"]
        assert thing["becomes"] is None or "at the" in text
        assert (thing["becomes"] if late else thing["colour"]) in answer
        changed += bool(late)
    assert changed > 10


def test_counts_are_true(asked: list[tuple[Facts, Question]]) -> None:
    for facts, text, answer in full(asked, "count"):
        objects = facts["objects"]
        words = answer.lower().split()
        [said] = [NUMBERS.index(word) for word in words if word in NUMBERS]
        bases = [
            motion for motion, base in BASE_MOTIONS.items() if text == f"How many objects {base}?"
        ]
        if bases:
            assert said == sum(thing["motion"] == bases[0] for thing in objects)
        elif match := re.search(r"How many (large|small)", text):
            assert said == sum(thing["size"] == match[1] for thing in objects)
        elif "at the start" in text:
            assert said == sum(thing["appears_s"] is None for thing in objects)
        elif "at the end" in text:
            assert said == sum(thing["disappears_s"] is None for thing in objects)
        elif match := re.search(r"How many (?!objects)(\w+?)(?:e?s) are", text):
            assert said == sum(thing["shape"].startswith(match[1]) for thing in objects)
        else:
            assert said == len(objects)


def test_motions_are_true(asked: list[tuple[Facts, Question]]) -> None:
    movers = Counter()
    for facts, text, answer in full(asked, "motion"):
        told = names(text, facts)
        if told:
            motion = named(facts)[told[0]]["motion"]
            assert answer == f"The {told[0]} {MOTION_PHRASES[motion][0]}."
            continue
        [motion] = [m for m, said in MOTION_PHRASES.items() if text == f"What {said[0]}?"]
        expected = [name for name, thing in named(facts).items() if thing["motion"] == motion]
        assert sorted(names(answer, facts)) == sorted(expected)
        assert answer.startswith("Nothing") == (not expected)
        movers[len(expected)] += 1
    assert {0, 1, 2} <= set(movers)


def test_relations_are_true(asked: list[tuple[Facts, Question]]) -> None:
    for facts, text, answer in full(asked, "relation"):
        one, other = (named(facts)[name] for name in names(text, facts))
        moment_s = meeting_s(one, other)
        assert moment_s is not None
        assert ("at the start" in text) == (moment_s == 0)
        axis = 0 if "left" in text else 1
        before = where(one, moment_s)[axis] < where(other, moment_s)[axis]
        if text.startswith("Which"):
            assert names(answer, facts) == [names(text, facts)[0 if before else 1]]
        else:
            word = ("left", "right")[not before] if axis == 0 else ("above", "below")[not before]
            assert re.search(rf"\b{word}\b", answer)
            assert names(answer, facts) == names(text, facts)


def test_order_is_true(asked: list[tuple[Facts, Question]]) -> None:
    forms = Counter()
    for facts, text, answer in full(asked, "order"):
        order = [list(named(facts))[event["object"]] for event in facts["events"]]
        told = names(text, facts)
        pick = max if "last" in text else min
        if not told:
            assert names(answer, facts) == [order[-1 if "last" in text else 0]]
        elif "before or after" in text:
            word = "before" if order.index(told[0]) < order.index(told[1]) else "after"
            assert word in answer
        elif text.startswith("Which"):
            assert names(answer, facts) == [
                pick(told, key=lambda name: named(facts)[name]["appears_s"] or 0)
            ]
        else:
            assert names(answer, facts) == [pick(told, key=order.index)]
        forms[text.split()[0]] += 1
    assert set(forms) == {"What", "Which", "Does"}


def test_seconds_are_true(asked: list[tuple[Facts, Question]]) -> None:
    for facts, text, answer in full(asked, "when"):
        [name] = names(text, facts)
        [event] = [e for e in facts["events"] if list(named(facts))[e["object"]] == name]
        assert f"after {round(event['time_s'])} second" in answer


def true_of(facts: Facts, text: str) -> bool:
    """Whether what a yes or no question asks for is so, its negation left out."""
    plain = text.replace(" not ", " ")
    told = names(text, facts)
    if re.match(r"Is there|Can you|Is it", plain):
        return bool(told)
    thing = named(facts)[told[0]]
    done = plain.removesuffix("?").split(f"{told[0]} ")[1]
    if done == "move":
        return bool(thing["motion"] != "still")
    events = {"appear": "appears", "disappear": "disappears", "change its color": "changes colour"}
    if done in events:
        index = facts["objects"].index(thing)
        return (events[done], index) in [(e["kind"], e["object"]) for e in facts["events"]]
    return done in (thing["size"], BASE_MOTIONS[thing["motion"]])


def test_yes_and_no_are_true_and_balanced(asked: list[tuple[Facts, Question]]) -> None:
    verdicts: dict[bool, list[bool]] = defaultdict(list)
    for facts, text, answer in full(asked, "yes/no"):
        negated = bool(re.search(r"\b(?:not|no)\b", text))
        so = true_of(facts, text)
        assert answer.startswith("Yes, " if so != negated else "No, "), (text, answer)
        assert bool(re.search(r"\b(?:not|no)\b", answer[3:])) == (not so)
        verdicts[negated].append(so)
    for negated, said in verdicts.items():
        assert len(said) > 100
        assert 0.4 < np.mean(said) < 0.6, negated


def test_comparisons_are_true_and_balanced(asked: list[tuple[Facts, Question]]) -> None:
    yes = []
    for facts, text, answer in full(asked, "compare"):
        one, other = (named(facts)[name] for name in names(text, facts))
        if text.startswith("Do "):
            key = "motion" if "way" in text else "size"
            yes.append(one[key] == other[key])
            assert answer.startswith("Yes, " if yes[-1] else "No, ")
            continue
        [said] = [named(facts)[name] for name in names(answer, facts)]
        rest = other if said is one else one
        if "moves" in text:
            assert said["motion"] != "still" == rest["motion"]
        else:
            assert (said["size"] == "large") == ("larger" in text)
            assert said["size"] != rest["size"]
    assert 0.35 < np.mean(yes) < 0.6


def test_choices_are_balanced(asked: list[tuple[Facts, Question]]) -> None:
    """Of two objects in a question, the first is the answer about half of the time."""
    for kind in ("relation", "order", "compare"):
        first = [
            names(answer, facts)[0] == names(text, facts)[0]
            for facts, text, answer in full(asked, kind)
            if text.startswith(("Which", "What")) and len(names(text, facts)) == 2
        ]
        assert len(first) > 60
        assert 0.4 < np.mean(first) < 0.6, kind


def test_practice_is_of_what_is_learnt_slowly_and_mostly_brief() -> None:
    kinds, answers, brief = Counter(), Counter(), 0
    for seed in range(60):
        asked = practice(sample_scene(seed, RICH_WORLD), 10, np.random.default_rng(seed))
        assert len(asked) <= 10
        assert asked == practice(sample_scene(seed, RICH_WORLD), 10, np.random.default_rng(seed))
        kinds.update(one.kind for one in asked)
        answers.update(one.answer for one in asked)
        brief += sum(one.text.endswith(BRIEF_REQUESTS) for one in asked)
    assert set(kinds) == {"count", "yes/no", "order"}
    assert min(kinds.values()) > kinds.total() / 6
    assert kinds.total() > 60 * 4
    assert 0.7 < brief / kinds.total() < 0.9
    assert 0.5 < answers["Yes."] / answers["No."] < 2
