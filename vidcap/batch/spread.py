"""Answers the same requests about many videos with several workers at once.

Videos are handed out as workers become free, and answers are written, here and nowhere else, as
they come: in the order in which videos are done. A worker that dies is replaced, and its video is
done again, once.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vidcap.batch.answering import StopSignal
from vidcap.batch.desk import Desk, Host, Tally
from vidcap.batch.feed import Feed
from vidcap.batch.jobs import Job
from vidcap.batch.requests import Request, check_input
from vidcap.batch.sinks import Sink
from vidcap.batch.workers import Outcome, Pool, WorkerDiedError
from vidcap.captioner import Captioner
from vidcap.errors import InputError, ModelError

#: How long the workers are waited for before new lines of a list are looked at, in seconds.
_SLICE_S = 0.2

_DONE_AGAIN = "its worker died, it was done again"


@dataclass(frozen=True, slots=True)
class _Assignment:
    """A video for a worker; ``again`` where an earlier one died over it."""

    job: Job
    requests: tuple[Request, ...]
    again: bool = False


class SpreadBatch:
    """A run over many videos by the workers of a pool.

    Args:
        captioner: with the settings of the workers; its own pair stays unloaded.
        sink: where answers go; it also knows which are there already.
        signal: says when to end early.
        host: is told how it goes.
        open_pool: opens the pool, once there is a video that needs a worker.
    """

    def __init__(
        self,
        captioner: Captioner,
        sink: Sink,
        signal: StopSignal,
        host: Host,
        open_pool: Callable[[], Pool],
    ):
        self._captioner = captioner
        self._sink = sink
        self._signal = signal
        self._host = host
        self._open_pool = open_pool
        self._desk = Desk(captioner, sink, host)
        self._pool: Pool | None = None
        self._waiting: deque[_Assignment] = deque()
        self._loading: dict[Hashable, Any] = {}
        self._idle: list[Any] = []
        self._working: dict[Hashable, tuple[Any, _Assignment]] = {}
        self._loaded = False
        self._died_loading = False

    def run(self, feed: Feed, requests: Sequence[Request]) -> Tally:
        """Answers all requests about every video; one that fails gets a record that says why.

        Returns:
            how the inputs ended.

        Raises:
            ModelError: nothing can run.
            OutputError: answers cannot be written.
        """
        self._desk.requests = tuple(requests)
        try:
            while self._take(feed):
                pool = self._staff()
                self._hand_out(pool)
                self._collect(pool)
                if self._signal.should_stop():
                    break
        finally:
            if self._pool is not None:
                self._pool.close()
        return self._desk.tally

    def _take(self, feed: Feed) -> bool:
        """Takes a video for every worker; False where none is left and none is being done."""
        room = 1 if self._pool is None else self._pool.size
        while len(self._waiting) + len(self._working) < room:
            busy = self._waiting or self._working
            entry = feed.poll() if busy else feed.take()
            if entry is None:
                break
            task = self._desk.task(entry)
            job = self._desk.work(task)
            if job is not None and self._is_usable(job, task.requests):
                self._waiting.append(_Assignment(job, task.requests))
            else:
                self._host.finished(task.entry.path)
        return bool(self._waiting or self._working)

    def _is_usable(self, job: Job, requests: Sequence[Request]) -> bool:
        """Nobody should wait for a cluster only to be told that there is no video."""
        if self._pool is not None:
            return True
        try:
            check_input(job.file)
            self._captioner.check(job.file)
        except InputError as error:
            self._desk.fail(job, error, requests)
            self._sink.finish(job)
            return False
        return True

    def _staff(self) -> Pool:
        """As many workers as there is work for, and as the pool has."""
        if self._pool is None:
            self._host.loading()
            self._pool = self._open_pool()
        for _ in range(len(self._waiting) - len(self._idle) - len(self._loading)):
            if len(self._idle) + len(self._loading) + len(self._working) < self._pool.size:
                worker, ticket = self._pool.start()
                self._loading[ticket] = worker
        return self._pool

    def _hand_out(self, pool: Pool) -> None:
        while self._waiting and self._idle:
            worker, work = self._idle.pop(), self._waiting.popleft()
            self._host.stage("describing", work.job.path)
            # The worker may have another working directory.
            job = replace(work.job, file=os.path.abspath(work.job.file))
            self._working[pool.submit(worker, job, work.requests)] = worker, work

    def _collect(self, pool: Pool) -> None:
        for ticket in pool.wait([*self._loading, *self._working], _SLICE_S):
            with self._signal.answering() as keep_words:
                keep_words()
                if ticket in self._loading:
                    self._end_loading(pool, ticket)
                else:
                    self._end_work(pool, ticket)

    def _end_loading(self, pool: Pool, ticket: Hashable) -> None:
        worker = self._loading.pop(ticket)
        try:
            outcome = pool.outcome(ticket)
        except WorkerDiedError as error:
            if self._died_loading:
                raise ModelError(
                    "workers die while they load the pair", hint="they may lack memory"
                ) from error
            self._died_loading = True
            return
        failure = outcome.explained()
        if failure is not None:
            if outcome.host != socket.gethostname():
                failure.message = f"a worker on {outcome.host}: {failure.message}"
            raise failure
        self._died_loading = False
        self._idle.append(worker)
        if not self._loaded:
            self._loaded = True
            self._host.loaded()

    def _end_work(self, pool: Pool, ticket: Hashable) -> None:
        worker, work = self._working.pop(ticket)
        try:
            outcome = pool.outcome(ticket)
        except WorkerDiedError as death:
            if not work.again:
                self._waiting.appendleft(replace(work, again=True))
                return
            failure = InputError("two workers died over it", hint="they may lack memory")
            failure.__cause__ = death
            self._desk.fail(work.job, failure, work.requests)
        else:
            self._idle.append(worker)
            self._write(work, outcome)
        self._sink.finish(work.job)
        self._host.finished(work.job.path)

    def _write(self, work: _Assignment, outcome: Outcome) -> None:
        for record in outcome.records:
            if work.again:
                record = replace(record, warnings=(*record.warnings, _DONE_AGAIN))
            self._sink.begin(record.path, record.question)
            self._host.words()
            self._sink.end(record)
            self._host.answered(record)
        error = outcome.explained()
        if error is None:
            self._desk.tally.answered += 1
        elif outcome.ends_run:
            raise error
        else:
            self._desk.fail(work.job, error, work.requests[len(outcome.records) :])
