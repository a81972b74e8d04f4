"""Answers made by several workers, each a process with a loaded pair of its own.

What a worker does and what it hands back; how workers are had is a :class:`Pool`'s business.
"""

from __future__ import annotations

import socket
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from vidcap.batch.answering import Answering, KeepWords
from vidcap.batch.jobs import Job
from vidcap.batch.requests import Request, check_input
from vidcap.batch.sinks import Wanted
from vidcap.captioner import Captioner
from vidcap.errors import ModelError, UsageError, VidcapError, explain
from vidcap.output.record import Record


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a worker has to say about a piece of work; made to be sent to another process.

    Attributes:
        records: the answers, in the order of the requests.
        error: why there are no more of them, None where all are there.
        ends_run: whether other videos would meet the same error.
        trace: the traceback of the error.
        host: name of the machine.
    """

    records: tuple[Record, ...] = ()
    error: VidcapError | None = None
    ends_run: bool = False
    trace: str = ""
    host: str = ""

    def explained(self) -> VidcapError | None:
        """The error with its traceback, for those who want to see it."""
        if self.error is not None:
            self.error.__cause__ = WorkerTracebackError(self.trace)
        return self.error


class WorkerTracebackError(Exception):
    """Shows the traceback of an error that happened in another process."""

    def __str__(self) -> str:
        return f"in a worker\n{self.args[0]}"


class WorkerDiedError(Exception):
    """The process of a worker, or its machine, is gone."""


class Pool(Protocol):
    """Where workers are had. A ticket stands for a piece of work that was given to one.

    Attributes:
        size: most workers at a time.
    """

    size: int

    def start(self) -> tuple[Any, Hashable]:
        """A new worker, and the ticket of its loading the pair."""

    def submit(self, worker: Any, job: Job, requests: Sequence[Request]) -> Hashable:
        """Gives a video to a worker that has nothing to do."""

    def wait(self, tickets: Sequence[Any], seconds: float) -> Sequence[Hashable]:
        """Those that are done; at least one, unless so many seconds passed."""

    def outcome(self, ticket: Any) -> Outcome:
        """What became of it.

        Raises:
            WorkerDiedError: nothing did.
        """

    def close(self) -> None:
        """Ends all workers, whatever they are doing."""


class Worker:
    """Loads a pair once and answers about one video after the other.

    Args:
        make: makes the captioner, where the worker runs.
    """

    def __init__(self, make: Callable[[], Captioner]):
        self._make = make
        self._captioner: Captioner | None = None

    def load(self) -> Outcome:
        """Loads the pair; every error ends the run."""
        try:
            self._captioner = self._make()
            self._captioner.isolate_decoding()
            self._captioner.load()
        except Exception as error:
            return _failure(error, (), ends_run=True)
        return Outcome(host=socket.gethostname())

    def answer(self, job: Job, requests: Sequence[Request]) -> Outcome:
        """Answers all requests about a video, or as many as it can."""
        if self._captioner is None:
            raise RuntimeError("the pair is not loaded")
        sink = _Collected()
        try:
            check_input(job.file)
            Answering(self._captioner, sink, _NoSignal(), _Nobody(), job, requests).run()
        except Exception as error:
            ends_run = isinstance(error, ModelError | UsageError)
            return _failure(error, tuple(sink.records), ends_run=ends_run)
        return Outcome(tuple(sink.records), host=socket.gethostname())


def _failure(error: Exception, records: tuple[Record, ...], *, ends_run: bool) -> Outcome:
    trace = "".join(traceback.format_exception(error)).rstrip("\n")
    return Outcome(records, explain(error), ends_run, trace, socket.gethostname())


class _Collected:
    """A sink that keeps the records."""

    keeps = False

    def __init__(self) -> None:
        self.records: list[Record] = []

    def missing(self, job: Job, wanted: Wanted) -> Sequence[int]:
        return range(len(wanted.settings))

    def begin(self, path: str, question: str | None) -> None: ...

    def piece(self, text: str) -> None: ...

    def end(self, record: Record) -> None:
        self.records.append(record)

    def finish(self, job: Job) -> None: ...

    def close(self) -> None: ...


class _NoSignal:
    """Nobody interrupts a worker; it is ended."""

    def should_stop(self) -> bool:
        return False

    def check(self) -> None: ...

    @contextmanager
    def answering(self) -> Iterator[KeepWords]:
        yield lambda: None


class _Nobody:
    """Nobody watches a worker."""

    def stage(self, what: str, path: str) -> None: ...

    def words(self) -> None: ...

    def answered(self, record: Record) -> None: ...
