"""Token ids to text, piece by piece, without broken characters or lost spaces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tokenizers.decoders import DecodeStream


class TextStream:
    """Detokenises accepted tokens as they come.

    A piece is given out as soon as its bytes form whole characters. What was given out and what
    :meth:`finish` returns add up to the text of all tokens.
    """

    def __init__(self, tokenizer: Any):
        """Args: tokenizer: a fast tokenizer of transformers."""
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)
        self._ids: list[int] = []
        self._given = ""

    def push(self, ids: Iterable[int]) -> str:
        """Text that `ids` complete, maybe empty."""
        pieces = []
        for token in ids:
            self._ids.append(token)
            pieces.append(self._stream.step(self._tokenizer.backend_tokenizer, token) or "")
        text = "".join(pieces)
        self._given += text
        return text

    def finish(self) -> str:
        """Text that was held back; an incomplete character shows as U+FFFD."""
        rest = self.text[len(self._given) :]
        self._given += rest
        return rest

    @property
    def text(self) -> str:
        """Text of all tokens so far."""
        decoded: str = self._tokenizer.decode(
            self._ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return decoded
