"""Which tokens loose verification holds to."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from transformers import AutoTokenizer

from vidcap.models.strict_tokens import fact_token_ids, strict_token_ids


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(str(files("vidcap.demo") / "weights" / "target"))


@pytest.fixture(scope="module")
def strict(tokenizer: Any) -> frozenset[int]:
    return strict_token_ids(tokenizer)


@pytest.fixture(scope="module")
def facts(tokenizer: Any) -> frozenset[int]:
    return fact_token_ids(tokenizer)


@pytest.mark.parametrize("text", ["not", "No", "three", "7", "Yes"])
def test_negations_and_numbers_are_strict(
    tokenizer: Any, strict: frozenset[int], text: str
) -> None:
    assert strict & set(tokenizer(f" {text}").input_ids)


@pytest.mark.parametrize("text", ["red", "left", "upwards", "small", "larger", "before", "start"])
def test_words_that_facts_hang_on_are_apart(
    tokenizer: Any, strict: frozenset[int], facts: frozenset[int], text: str
) -> None:
    ids = set(tokenizer(f" {text}").input_ids)
    assert facts & ids
    assert not strict & ids


def test_case_and_the_space_before_a_word_do_not_matter(
    tokenizer: Any, strict: frozenset[int]
) -> None:
    words = {tokenizer.decode([index]) for index in strict}
    assert {" three", " Three"} & words
    assert {"No", " no"} <= words


@pytest.mark.parametrize("text", ["the", "there", "moves", "object", "in", ".", ","])
def test_words_of_style_are_neither(
    tokenizer: Any, strict: frozenset[int], facts: frozenset[int], text: str
) -> None:
    assert not (strict | facts) & set(tokenizer(f" {text}").input_ids)


def test_special_tokens_are_strict(tokenizer: Any, strict: frozenset[int]) -> None:
    assert set(tokenizer.all_special_ids) <= strict
    assert tokenizer.convert_tokens_to_ids("<|video_pad|>") in strict
    assert len(strict) < len(tokenizer) / 4
