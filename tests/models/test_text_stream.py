"""Streaming text: whole characters, no lost spaces, nothing missing at the end."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from vidcap.demo.tokenizer import train_tokenizer
from vidcap.models.text_stream import TextStream


@lru_cache(maxsize=1)
def tokenizer() -> Any:
    return train_tokenizer(["a small red circle moves to the left"], size=300)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40), st.integers(1, 5))
def test_pieces_add_up_to_the_text(text: str, step: int) -> None:
    tok = tokenizer()
    ids = tok(text, add_special_tokens=False).input_ids
    stream = TextStream(tok)
    pieces = [stream.push(ids[i : i + step]) for i in range(0, len(ids), step)]
    assert not any("\ufffd" in piece for piece in pieces) or "\ufffd" in text
    joined = "".join(pieces) + stream.finish()
    assert joined == stream.text == tok.decode(ids, skip_special_tokens=True)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 290), max_size=30))
def test_any_ids_add_up_to_the_decoded_text(ids: list[int]) -> None:
    """Random bytes are no valid UTF-8: what cannot be shown is held back or replaced, once."""
    tok = tokenizer()
    stream = TextStream(tok)
    joined = "".join(stream.push([token]) for token in ids) + stream.finish()
    assert joined == stream.text


def test_a_character_waits_for_its_last_byte() -> None:
    tok = tokenizer()
    ids = tok("é", add_special_tokens=False).input_ids
    assert len(ids) == 2
    stream = TextStream(tok)
    assert stream.push(ids[:1]) == ""
    assert stream.push(ids[1:]) == "é"


def test_special_tokens_are_silent() -> None:
    tok = tokenizer()
    ids = tok("red", add_special_tokens=False).input_ids
    stream = TextStream(tok)
    assert stream.push([*ids, tok.convert_tokens_to_ids("<|im_end|>")]) == "red"
    assert stream.finish() == ""
