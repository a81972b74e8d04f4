"""Answers about one video, as a whole or window by window; with half the frames if memory ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from vidcap.batch.jobs import Job
from vidcap.batch.requests import Request
from vidcap.batch.sinks import Sink
from vidcap.batch.timed import join_windows
from vidcap.captioner import Captioner
from vidcap.errors import InputError, MemoryShortError, ModelError
from vidcap.output.record import Record
from vidcap.output.text import window_heading
from vidcap.shortage import free_memory
from vidcap.video import Frames, Window

if TYPE_CHECKING:
    from vidcap.session import VideoSession

KeepWords = Callable[[], None]


class StopSignal(Protocol):
    """Says when the user wants the run to end."""

    def should_stop(self) -> bool:
        """Whether to end now, with what there is."""

    def check(self) -> None:
        """Raises KeyboardInterrupt if the user wants to end."""

    def answering(self) -> AbstractContextManager[KeepWords]:
        """Work on an answer; the yielded function says that there are words to keep."""


class Audience(Protocol):
    """Is told how an answer comes along."""

    def stage(self, what: str, path: str) -> None:
        """What happens now."""

    def words(self) -> None:
        """Words are about to be written."""

    def answered(self, record: Record) -> None:
        """An answer is complete."""


@dataclass(slots=True)
class Answering:
    """Answers requests about one video.

    Attributes:
        job: the video.
        requests: what is asked.
        done: how many of them are answered; the others have no record yet.
    """

    captioner: Captioner
    sink: Sink
    signal: StopSignal
    audience: Audience
    job: Job
    requests: Sequence[Request]
    done: int = 0
    _notes: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Answers all of them, or as many as the user waits for.

        Raises:
            InputError: the video cannot be used.
            ModelError: not even one frame of it fits into memory.
        """
        self.audience.stage("reading", self.job.path)
        if self.captioner.video.every_s is not None:
            self._by_windows()
            return
        for window in self.captioner.windows(self.job.file):
            self._with_memory(window.frames, window, self._answer_in_turn)

    def open(self, frames: Frames, window: Window) -> VideoSession:
        """Runs some of the frames of a window through the models."""
        return self.captioner.open_frames(
            self.job.file,
            frames,
            decode_s=window.decode_s,
            begin=time.perf_counter() - window.waited_s,
        )

    def _answer_in_turn(self, frames: Frames, window: Window) -> None:
        """Every answer is written while it is made."""
        with self.open(frames, window) as session:
            for request in self.requests[self.done :]:
                self.sink.begin(self.job.path, request.question)
                self.audience.stage("describing", self.job.path)
                with self.signal.answering() as keep_words:
                    record = session.answer(
                        request.prompt,
                        kind=request.kind,
                        question=request.question,
                        on_text=self._writing(keep_words),
                        should_stop=self.signal.should_stop,
                    )
                    keep_words()
                    self._end(record)
                if self.signal.should_stop():
                    return

    def _by_windows(self) -> None:
        """The answers to a single request are written while they are made, others at the end."""
        single = len(self.requests) == 1
        if single:
            self.sink.begin(self.job.path, self.requests[0].question)
        with self.signal.answering() as keep_words:
            answers = _WindowAnswers(len(self.requests))
            speak = self._writing(keep_words) if single else None
            for window in self.captioner.windows(self.job.file):
                if len(window.frames.times_s):
                    span = (window.start_s, window.end_s)
                    self.audience.stage(f"describing {window_heading(*span)} of", self.job.path)
                    self._with_memory(window.frames, window, answers.collector(self, speak))
                    answers.ranges.append(span)
                else:
                    self._notes += window.frames.warnings
                # Or it would stay alive while the next one is decoded.
                del window
                if answers.ranges:
                    keep_words()
                if self.signal.should_stop():
                    break
            for request, records in zip(self.requests, answers.records, strict=True):
                if not single:
                    self.sink.begin(self.job.path, request.question)
                self._end(join_windows(records, answers.ranges, self._notes))

    def _with_memory(
        self, frames: Frames, window: Window, work: Callable[[Frames, Window], None]
    ) -> None:
        """Tries it once more with half the frames where memory does not hold them all."""
        count = len(frames.times_s)
        try:
            work(frames, window)
            return
        except MemoryShortError as error:
            if count == 1:
                raise ModelError(f"{error.message} at one frame", hint=error.hint) from None
        # Behind the except block, where nothing holds on to what filled the memory.
        free_memory()
        frames = frames.thinned()
        note = f"out of memory with {count} frames, done with {len(frames.times_s)}"
        self._notes.append(note)
        try:
            work(frames, window)
        except MemoryShortError as error:
            words = f"out of memory, with half of its {count} frames too"
            raise InputError(words, hint=error.hint) from None

    def _writing(self, keep_words: KeepWords) -> Callable[[str], None]:
        def on_text(text: str) -> None:
            keep_words()
            self.audience.words()
            self.sink.piece(text)

        return on_text

    def _end(self, record: Record) -> None:
        warnings = dict.fromkeys((*record.warnings, *self._notes))
        record = replace(record, path=self.job.path, warnings=tuple(warnings))
        self.audience.words()
        self.sink.end(record)
        self.done += 1
        self.audience.answered(record)


class _WindowAnswers:
    """What was answered so far, window by window.

    Attributes:
        records: per request, the records of its windows.
        ranges: start and end of each window in seconds.
    """

    def __init__(self, requests: int):
        self.records: list[list[Record]] = [[] for _ in range(requests)]
        self.ranges: list[tuple[float, float]] = []

    def collector(
        self, work: Answering, speak: Callable[[str], None] | None
    ) -> Callable[[Frames, Window], None]:
        """Answers all requests about one window; `speak` gets the words of the only one."""
        done = len(self.ranges)

        def collect(frames: Frames, window: Window) -> None:
            for records in self.records:
                del records[done:]
            heading = window_heading(window.start_s, window.end_s)
            line = None if speak is None else _Line(speak, heading)
            with work.open(frames, window) as session, line or nullcontext():
                for request, records in zip(work.requests, self.records, strict=True):
                    record = session.answer(
                        request.prompt,
                        kind=request.kind,
                        question=request.question,
                        on_text=line,
                        should_stop=work.signal.should_stop,
                    )
                    records.append(record)

        return collect


class _Line:
    """The words of a window, on a line behind its times.

    The times are written with the first word, so that a window that is tried once more because
    memory ended before it stands there once.
    """

    def __init__(self, speak: Callable[[str], None], heading: str):
        self._speak = speak
        self._heading = heading

    def __call__(self, text: str) -> None:
        if text:
            self._begin()
            self._speak(text)

    def __enter__(self) -> _Line:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._begin()
        if not self._heading:
            self._speak("\n")

    def _begin(self) -> None:
        if self._heading:
            self._speak(f"{self._heading} ")
            self._heading = ""
