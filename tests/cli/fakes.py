"""A captioner of a few lines: what it says and how it fails depends on the name of the file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from vidcap.cli.console import explain
from vidcap.errors import InputError, ModelError
from vidcap.output.record import (
    ErrorPart,
    FinishReason,
    Kind,
    ModelPart,
    Record,
    Source,
    SpeculationPart,
    TimingPart,
    TokenCounts,
    VideoPart,
)
from vidcap.settings import SpeculationSettings

WORDS = ["A red", " circle", " moves", " to the left."]


class FakeCaptioner:
    """Has the captioner's interface.

    A file whose name contains ``broken`` is no video, ``oom`` ends the run, ``bug`` raises
    something unforeseen half way, ``warn`` carries a warning.

    Args:
        settings: as the real one takes them.
        words: pieces of every answer.
        delay_s: time before each piece.
        load_s: time to load.
        deaf: whether ``should_stop`` is never asked.
        calls: collects what happens, in order.
    """

    def __init__(
        self,
        *settings: Any,
        words: list[str] | None = None,
        delay_s: float = 0.0,
        load_s: float = 0.0,
        deaf: bool = False,
        calls: list[tuple[Any, ...]] | None = None,
    ):
        self.settings = settings
        self.words = WORDS if words is None else words
        self.delay_s = delay_s
        self.load_s = load_s
        self.deaf = deaf
        self.calls = [] if calls is None else calls
        self.pair_name = "fake"
        self.notices: tuple[str, ...] = ("the fake pair sees nothing",)

    def variant(self, speculation: SpeculationSettings) -> FakeCaptioner:
        self.calls.append(("variant", speculation.method))
        return self

    def prefetch(self, path: str) -> None:
        self.calls.append(("prefetch", Path(path).name))

    def load(self) -> None:
        self.calls.append(("load",))
        time.sleep(self.load_s)

    def open(self, path: str) -> FakeSession:
        self.calls.append(("open", Path(path).name))
        if "broken" in path:
            raise InputError("no video stream (audio only)", hint="is it a song?")
        return FakeSession(self, path)

    def finish(self, record: Record) -> Record:
        """A last word on a record, for captioners that differ."""
        return record

    def error_record(
        self, path: str, error: Exception, kind: Kind, prompt: str, question: str | None
    ) -> Record:
        known = explain(error)
        part = ErrorPart(type(known).__name__, known.message, known.hint)
        return Record(path, kind, status="error", prompt=prompt, question=question, error=part)


class FakeSession:
    def __init__(self, captioner: FakeCaptioner, path: str):
        self._captioner = captioner
        self._path = path

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._captioner.calls.append(("close", Path(self._path).name))

    def answer(
        self,
        prompt: str,
        *,
        kind: Kind = "describe",
        question: str | None = None,
        on_text: Callable[[str], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Record:
        self._captioner.calls.append(("answer", prompt))
        if "oom" in self._path:
            raise ModelError("out of memory at one frame")
        text, reason = "", "stop"
        for word in self._captioner.words:
            time.sleep(self._captioner.delay_s)
            if should_stop is not None and not self._captioner.deaf and should_stop():
                reason = "interrupted"
                break
            text += word
            if on_text is not None:
                on_text(word)
            if "bug" in self._path:
                raise KeyError("a bug")
        warnings = ("decoded 0.5 s of 3.0 s",) if "warn" in self._path else ()
        record = fake_record(self._path, kind, prompt, question, text, reason, warnings)
        return self._captioner.finish(record)


def fake_record(
    path: str,
    kind: Kind = "describe",
    prompt: str = "Describe.",
    question: str | None = None,
    text: str = "".join(WORDS),
    finish_reason: FinishReason = "stop",
    warnings: tuple[str, ...] = (),
) -> Record:
    """A record with every part filled."""
    return Record(
        path=path,
        kind=kind,
        prompt=prompt,
        question=question,
        text=text,
        finish_reason=finish_reason,
        warnings=warnings,
        source=Source(1234, 1_700_000_000_000_000_000, "abcd"),
        video=VideoPart(6.0, 112, 84, 0.0, "h264", 3, (0.0, 0.5, 1.0), 6.0, 0),
        model=ModelPart("fake", "t", "d", "cpu", "float32", "vidcap_split", "reference"),
        tokens=TokenCounts(120, 96, 96, 14),
        speculation=SpeculationPart(
            "sd-tree", "strict", 4, 100, 9, 3.25, 2.25, 0.09, (1, 0, 2, 1), 0, None
        ),
        timing=TimingPart(1.5, 0.05, 0.01, 0.1, 0.2, 0.05, 0.1, 0.3, 0.19, 0.41, 0.5, 1.0, 26.0),
        settings_hash="f00d",
    )
