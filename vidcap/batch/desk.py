"""What comes in, what is done already and what failed: the same for every way to run a batch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from vidcap.batch.answering import Audience
from vidcap.batch.jobs import Entry, Job, Problem
from vidcap.batch.requests import Request
from vidcap.batch.sinks import Sink, Wanted
from vidcap.captioner import Captioner
from vidcap.errors import explain
from vidcap.output.source import read_source


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
class Task:
    """An input with the requests that have no answer yet."""

    entry: Job | Problem
    requests: tuple[Request, ...]

    @property
    def file(self) -> str | None:
        """What has to be decoded, None where there is nothing to decode."""
        if not isinstance(self.entry, Job) or not self.requests:
            return None
        return self.entry.file if os.path.isfile(self.entry.file) else None


@dataclass(slots=True)
class Desk:
    """Turns inputs into tasks, settles those that need no work, and writes down what failed.

    Attributes:
        captioner: knows the settings; its pair need not be loaded.
        sink: where answers go; it also knows which are there already.
        host: is told how it goes.
        requests: what is asked about each video.
        tally: how the inputs ended so far.
    """

    captioner: Captioner
    sink: Sink
    host: Host
    requests: tuple[Request, ...] = ()
    tally: Tally = field(default_factory=Tally)

    def task(self, entry: Entry) -> Task:
        """An input with what is left to do about it."""
        requests = self.requests
        if isinstance(entry, Problem):
            return Task(entry, ())
        source = read_source(entry.file) if self.sink.keeps else None
        if source is not None:
            hashes = tuple(self.captioner.settings_hash(item.prompt) for item in requests)
            missing = self.sink.missing(entry, Wanted(source, hashes))
            requests = tuple(requests[place] for place in missing)
        return Task(entry, requests)

    def work(self, task: Task) -> Job | None:
        """The video of a task, None where nothing has to be done; that is counted and told."""
        if isinstance(task.entry, Problem):
            self.tally.failed += 1
            self.host.failed(task.entry.path, task.entry.error)
            return None
        if not task.requests:
            self.tally.skipped += 1
            self.host.skipped(task.entry.path)
            return None
        return task.entry

    def fail(self, job: Job, error: Exception, requests: Sequence[Request]) -> None:
        """Writes why these requests about a video have no answer."""
        self.tally.failed += 1
        known = explain(error)
        self.host.words()
        for request in requests:
            self.sink.begin(job.path, request.question)
            record = self.captioner.error_record(
                job.file, known, request.kind, request.prompt, request.question
            )
            self.sink.end(replace(record, path=job.path))
        self.host.failed(job.path, error)
