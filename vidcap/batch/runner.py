"""Answers the same requests about one video after the other with one loaded pair."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from vidcap.batch.answering import Answering, StopSignal
from vidcap.batch.desk import Desk, Host, Tally, Task
from vidcap.batch.feed import Feed
from vidcap.batch.jobs import Job
from vidcap.batch.requests import Request, check_input
from vidcap.batch.sinks import Sink
from vidcap.captioner import Captioner
from vidcap.errors import ModelError, UsageError, VidcapError, explain
from vidcap.output.streams import OutputError


class Batch:
    """A run over many videos.

    Args:
        captioner: whose pair answers.
        sink: where answers go; it also knows which are there already.
        signal: says when to end early.
        host: is told how it goes.
        ahead: how many videos are decoded while the models are busy with another.
    """

    def __init__(
        self, captioner: Captioner, sink: Sink, signal: StopSignal, host: Host, *, ahead: int = 0
    ):
        self._captioner = captioner
        self._sink = sink
        self._signal = signal
        self._host = host
        self._ahead = ahead
        self._coming: deque[Task] = deque()
        self._desk = Desk(captioner, sink, host)
        self._loaded = False

    def run(self, feed: Feed, requests: Sequence[Request]) -> Tally:
        """Answers all requests about every video; one that fails gets a record that says why.

        Returns:
            how the inputs ended.

        Raises:
            ModelError: nothing can run.
            OutputError: answers cannot be written.
        """
        self._desk.requests = tuple(requests)
        while (task := self._next(feed)) is not None:
            job = self._desk.work(task)
            if job is not None:
                self._answer(job, task.requests, feed)
            self._host.finished(task.entry.path)
            if self._signal.should_stop():
                break
        return self._desk.tally

    def _next(self, feed: Feed) -> Task | None:
        if self._coming:
            return self._coming.popleft()
        entry = feed.take()
        return None if entry is None else self._desk.task(entry)

    def _answer(self, job: Job, requests: Sequence[Request], feed: Feed) -> None:
        work = Answering(self._captioner, self._sink, self._signal, self._host, job, requests)
        try:
            check_input(job.file)
            self._load(job)
            self._decode_ahead(feed)
            work.run()
            self._desk.tally.answered += 1
        except (ModelError, OutputError, UsageError):
            raise
        except Exception as error:
            self._desk.fail(job, error, requests[work.done :])
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
            self._coming.append(self._desk.task(entry))
        for file in files:
            self._captioner.prefetch(file, ahead=True)
