"""Answers the same requests about one video after the other with one loaded pair."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from vidcap.batch.answering import Answering, Audience, StopSignal
from vidcap.batch.feed import Feed
from vidcap.batch.jobs import Job, Problem
from vidcap.batch.requests import Request, check_input
from vidcap.batch.sinks import Sink, Wanted
from vidcap.captioner import Captioner
from vidcap.errors import ModelError, UsageError, VidcapError, explain
from vidcap.output.source import read_source
from vidcap.output.streams import OutputError


class Host(Audience, Protocol):
    """What runs a batch on behalf of somebody, and is told how it goes."""

    def loading(self) -> None:
        """The pair is about to be loaded."""

    def loaded(self) -> None:
        """The pair is there."""

    def failed(self, path: str, error: Exception) -> None:
        """An input gave no answer, or not all of them."""

    def skipped(self, path: str) -> None:
        """An input was done by an earlier run."""

    def finished(self, path: str) -> None:
        """Nothing more happens to an input."""


@dataclass(slots=True)
class Tally:
    """How many inputs ended how."""

    answered: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class _Task:
    """A job with the requests that have no answer yet."""

    entry: Job | Problem
    requests: tuple[Request, ...]

    @property
    def file(self) -> str | None:
        """What has to be decoded, None where there is nothing to decode."""
        if not isinstance(self.entry, Job) or not self.requests:
            return None
        return self.entry.file if os.path.isfile(self.entry.file) else None


class Batch:
    """A run over many videos.

    Args:
        captioner: whose pair answers.
        sink: where answers go; it also knows which are there already.
        signal: says when to end early.
        host: is told how it goes.
        ahead: how many videos are decoded while the models are busy with another.

    Attributes:
        tally: how the inputs ended so far.
    """

    def __init__(
        self, captioner: Captioner, sink: Sink, signal: StopSignal, host: Host, *, ahead: int = 0
    ):
        self._captioner = captioner
        self._sink = sink
        self._signal = signal
        self._host = host
        self._ahead = ahead
        self._coming: deque[_Task] = deque()
        self._requests: tuple[Request, ...] = ()
        self._loaded = False
        self.tally = Tally()

    def run(self, feed: Feed, requests: Sequence[Request]) -> Tally:
        """Answers all requests about every video; one that fails gets a record that says why.

        Raises:
            ModelError: nothing can run.
            OutputError: answers cannot be written.
        """
        self._requests = tuple(requests)
        while (task := self._next(feed)) is not None:
            self._do(task, feed)
            self._host.finished(task.entry.path)
            if self._signal.should_stop():
                break
        return self.tally

    def _next(self, feed: Feed) -> _Task | None:
        if self._coming:
            return self._coming.popleft()
        entry = feed.take()
        return None if entry is None else self._task(entry)

    def _task(self, entry: Job | Problem) -> _Task:
        requests = self._requests
        if isinstance(entry, Problem):
            return _Task(entry, ())
        source = read_source(entry.file) if self._sink.keeps else None
        if source is not None:
            hashes = tuple(self._captioner.settings_hash(item.prompt) for item in requests)
            missing = self._sink.missing(entry, Wanted(source, hashes))
            requests = tuple(requests[place] for place in missing)
        return _Task(entry, requests)

    def _do(self, task: _Task, feed: Feed) -> None:
        if isinstance(task.entry, Problem):
            self.tally.failed += 1
            self._host.failed(task.entry.path, task.entry.error)
        elif not task.requests:
            self.tally.skipped += 1
            self._host.skipped(task.entry.path)
        else:
            self._answer(task.entry, task.requests, feed)

    def _answer(self, job: Job, requests: Sequence[Request], feed: Feed) -> None:
        work = Answering(self._captioner, self._sink, self._signal, self._host, job, requests)
        try:
            check_input(job.file)
            self._load(job)
            self._decode_ahead(feed)
            work.run()
            self.tally.answered += 1
        except (ModelError, OutputError, UsageError):
            raise
        except Exception as error:
            self.tally.failed += 1
            self._write_errors(job, explain(error), requests[work.done :])
            self._host.failed(job.path, error)
        self._sink.finish(job)

    def _load(self, job: Job) -> None:
        """Loads the pair, once, while the first video is being decoded."""
        self._captioner.prefetch(job.file)
        if self._loaded:
            return
        # Nobody should wait for the weights only to be told that there is no video.
        self._captioner.check(job.file)
        self._host.loading()
        try:
            self._captioner.load()
        except VidcapError:
            raise
        except Exception as error:
            known = explain(error)
            raise ModelError(known.message, hint=known.hint) from error
        self._signal.check()
        self._loaded = True
        self._host.loaded()

    def _decode_ahead(self, feed: Feed) -> None:
        """Starts on the videos that come next, of those that are known already."""
        while len(files := [task.file for task in self._coming if task.file]) < self._ahead:
            entry = feed.poll()
            if entry is None:
                break
            self._coming.append(self._task(entry))
        for file in files:
            self._captioner.prefetch(file, ahead=True)

    def _write_errors(self, job: Job, error: VidcapError, requests: Sequence[Request]) -> None:
        self._host.words()
        for request in requests:
            self._sink.begin(job.path, request.question)
            record = self._captioner.error_record(
                job.file, error, request.kind, request.prompt, request.question
            )
            self._sink.end(replace(record, path=job.path))
