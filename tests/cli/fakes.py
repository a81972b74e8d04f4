"""A captioner of a few lines: what it says and how it fails depends on the name of the file."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from vidcap.errors import InputError, MemoryShortError, ModelError, explain
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
from vidcap.output.source import read_source
from vidcap.settings import ModelSettings, SpeculationSettings, VideoSettings

WORDS = ["A red", " circle", " moves", " to the left."]


class FakeCaptioner:
    """Has the captioner's interface.

    A file whose name contains ``broken`` is no video, ``oom`` ends the run, ``bug`` raises
    something unforeseen half way, ``warn`` carries a warning, ``big`` fits into memory with at most
    two of its four frames, ``huge`` not even with one. With ``every_s`` each video has three
    windows.

    Args:
        settings: as the real one takes them.
        words: pieces of every answer.
        delay_s: time before each piece.
        load_s: time to load.
        deaf: whether ``should_stop`` is never asked.
        can_share: whether there are threads to decode ahead.
        calls: collects what happens, in order.
    """

    def __init__(
        self,
        *settings: Any,
        words: list[str] | None = None,
        delay_s: float = 0.0,
        load_s: float = 0.0,
        deaf: bool = False,
        can_share: bool = False,
        calls: list[tuple[Any, ...]] | None = None,
    ):
        self.settings = settings
        self.words = WORDS if words is None else words
        self.delay_s = delay_s
        self.load_s = load_s
        self.deaf = deaf
        self.can_share = can_share
        filled = (*settings, *(ModelSettings(), VideoSettings())[len(settings) :], None, None)
        self.model: ModelSettings = filled[0]
        self.video: VideoSettings = filled[1]
        self.generation, self.speculation = filled[2:4]
        self.calls = [] if calls is None else calls
        self.pair_name = "fake"
        self.notices: tuple[str, ...] = ("the fake pair sees nothing",)
        self.warnings: tuple[str, ...] = ()

    def variant(self, speculation: SpeculationSettings) -> FakeCaptioner:
        self.calls.append(("variant", speculation.method))
        return self

    def isolate_decoding(self) -> None:
        pass

    def decode_ahead(self) -> bool:
        return self.can_share

    def prefetch(self, path: str, *, ahead: bool = False) -> None:
        self.calls.append(("ahead" if ahead else "prefetch", Path(path).name))

    def check(self, path: str) -> None:
        if "broken" in path:
            raise InputError("no video stream (audio only)", hint="is it a song?")

    def settings_hash(self, prompt: str) -> str:
        words = f"{prompt} {self.video} {self.settings[2:3]}"
        return hashlib.sha256(words.encode()).hexdigest()[:16]

    def load(self) -> None:
        self.calls.append(("load",))
        time.sleep(self.load_s)

    def windows(self, path: str) -> Iterator[FakeWindow]:
        self.calls.append(("open", Path(path).name))
        self.check(path)
        if self.video.every_s is None:
            yield FakeWindow(0.0, 6.0)
            return
        for number in range(3):
            yield FakeWindow(self.video.every_s * number, self.video.every_s * (number + 1))

    def open_frames(self, path: str, frames: FakeFrames, **times: float) -> FakeSession:
        count = len(frames.times_s)
        if ("big" in path and count > 2) or "huge" in path:
            self.calls.append(("short", count))
            raise MemoryShortError("out of memory", hint="use fewer frames")
        return FakeSession(self, path)

    def finish(self, record: Record) -> Record:
        """A last word on a record, for captioners that differ."""
        return record

    def error_record(
        self, path: str, error: Exception, kind: Kind, prompt: str, question: str | None
    ) -> Record:
        known = explain(error)
        part = ErrorPart(type(known).__name__, known.message, known.hint)
        return Record(
            path,
            kind,
            status="error",
            prompt=prompt,
            question=question,
            source=read_source(path),
            settings_hash=self.settings_hash(prompt),
            error=part,
        )


@dataclass(frozen=True)
class FakeFrames:
    times_s: tuple[float, ...] = (0.0, 1.0, 2.0, 3.0)
    warnings: tuple[str, ...] = ()

    def thinned(self) -> FakeFrames:
        return FakeFrames(self.times_s[::2])


@dataclass(frozen=True)
class FakeWindow:
    start_s: float
    end_s: float
    frames: FakeFrames = FakeFrames()
    decode_s: float = 0.0
    waited_s: float = 0.0


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
        record = replace(
            fake_record(self._path, kind, prompt, question, text, reason, warnings),
            source=read_source(self._path),
            settings_hash=self._captioner.settings_hash(prompt),
        )
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
            *("sd-tree", "strict", 4, 100, 9, 3.25, 2.25, 0.09, (1, 0, 2, 1), 0),
            fallback=f"drafting does not pay: {len(path)} %" if "loses" in path else None,
        ),
        timing=TimingPart(1.5, 0.05, 0.01, 0.1, 0.2, 0.05, 0.1, 0.3, 0.19, 0.41, 0.5, 1.0, 26.0),
        settings_hash="f00d",
    )
