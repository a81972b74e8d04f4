"""A second lane for the draft's work while the target is busy with its prompt."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import torch

T = TypeVar("T")


class Lane(Protocol):
    """Runs pieces of work in the order in which they are handed over."""

    @property
    def overlap_s(self) -> float:
        """Seconds of work that the caller did not wait for."""
        ...

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Hand over work; on a device it sees what the caller has computed up to here."""
        ...

    def result(self, future: Future[T]) -> T:
        """The result of work, or what it raised."""
        ...

    def is_ahead(self) -> bool:
        """Whether the caller is still busy, so that work may be done for which it has not asked."""
        ...

    def on_layer(self, layer: int) -> None:
        """Called in every layer of a prefill, by either side: a chance to share threads anew."""
        ...

    def close(self) -> None:
        """Nothing more will be handed over."""
        ...


class InlineLane:
    """No second lane: work runs when its result is asked for, in the caller's thread."""

    overlap_s = 0.0

    def __init__(self) -> None:
        self._work: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """See :class:`Lane`."""
        future: Future[T] = Future()
        self._work.append((future, work))
        return future

    def result(self, future: Future[T]) -> T:
        """See :class:`Lane`."""
        while not future.done():
            _run(*self._work.pop(0))
        return future.result()

    def is_ahead(self) -> bool:
        """See :class:`Lane`."""
        return False

    def on_layer(self, layer: int) -> None:
        """See :class:`Lane`."""

    def close(self) -> None:
        """See :class:`Lane`."""


class ThreadPace:
    """Shares torch's threads on the CPU between the caller and the lane.

    Torch keeps the number of its threads for each thread that computes, so both sides set their own
    whenever they reach a new layer: all of them for a side that runs alone, else a quarter, at
    least one, for the draft. So the two never have more threads than there are.

    Two threads are less than twice as fast as one, which is what sharing wins: the demo target
    reads 512 visual tokens in 0.31 s with one and 0.19 s with two, its draft in 0.11 s and 0.07 s
    (float32, best of five on two cores that others used as well).
    """

    def __init__(self, total: int):
        """Args: total: threads in all, at least 2."""
        self._total = total
        self._lane_share = max(1, total // 4)

    def caller(self, *, alone: bool) -> None:
        """The caller computes on."""
        self._set(self._total if alone else self._total - self._lane_share)

    def lane(self, *, alone: bool) -> None:
        """The lane computes on."""
        self._set(self._total if alone else self._lane_share)

    @staticmethod
    def _set(count: int) -> None:
        if torch.get_num_threads() != count:
            torch.set_num_threads(count)


class ThreadLane:
    """A thread, on CUDA with streams of its own.

    What the lane computes is complete when its result is handed out, so the caller's stream has
    nothing to wait for. Tensors that cross over live as long as the video is open.
    """

    def __init__(self, devices: Sequence[torch.device], pace: ThreadPace | None = None):
        """Args:
        devices: where the work runs.
        pace: shares the threads where both sides compute on the CPU.
        """
        self._devices = [device for device in dict.fromkeys(devices) if device.type == "cuda"]
        self._pace = pace
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any], list[Any]] | None]
        self._queue = SimpleQueue()
        self._pending = 0
        self._waiting = False
        self._worked_s = self._waited_s = 0.0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="draft", daemon=True)
        self._thread.start()

    @property
    def overlap_s(self) -> float:
        """See :class:`Lane`."""
        return max(0.0, self._worked_s - self._waited_s)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """See :class:`Lane`."""
        future: Future[T] = Future()
        events = [torch.cuda.current_stream(device).record_event() for device in self._devices]
        self._count(+1)
        self._queue.put((future, work, events))
        self._share_threads()
        return future

    def result(self, future: Future[T]) -> T:
        """See :class:`Lane`."""
        self._waiting, begin = True, time.perf_counter()
        try:
            # In slices, so that the main thread sees Ctrl-C on every platform.
            while not future.done():
                wait([future], timeout=0.2)
            return future.result()
        finally:
            self._waiting = False
            self._waited_s += time.perf_counter() - begin
            self._share_threads()

    def is_ahead(self) -> bool:
        """See :class:`Lane`."""
        return not self._waiting

    def on_layer(self, layer: int) -> None:
        """See :class:`Lane`."""
        self._share_threads()

    def close(self) -> None:
        """See :class:`Lane`."""
        self._queue.put(None)
        if self._pace is not None:
            # There may be no later chance, and what the lane still does is not much.
            self._pace.caller(alone=True)

    def _share_threads(self) -> None:
        if self._pace is None:
            return
        if threading.current_thread() is self._thread:
            self._pace.lane(alone=self._waiting)
        else:
            self._pace.caller(alone=not self._pending)

    def _count(self, change: int) -> None:
        with self._lock:
            self._pending += change

    @torch.inference_mode()
    def _work(self) -> None:
        with ExitStack() as stack:
            streams = [torch.cuda.Stream(device) for device in self._devices]
            for stream in streams:
                stack.enter_context(torch.cuda.stream(stream))
            while (item := self._queue.get()) is not None:
                future, work, events = item
                begin = time.perf_counter()
                for stream, event in zip(streams, events, strict=True):
                    stream.wait_event(event)
                self._share_threads()
                _run(future, work, before=partial(self._end, streams, begin))

    def _end(self, streams: Sequence[torch.cuda.Stream], begin: float) -> None:
        for stream in streams:
            stream.synchronize()
        self._worked_s += time.perf_counter() - begin
        self._count(-1)


def _run(
    future: Future[Any], work: Callable[[], Any], before: Callable[[], object] = lambda: None
) -> None:
    """Do the work; `before` its outcome is handed out, something else."""
    try:
        try:
            result = work()
        finally:
            before()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


def open_lane(target: torch.device, draft: torch.device) -> Lane:
    """The lane that pays for a pair on these devices.

    On the CPU the two sides share the threads that there are; with a single one there is nothing to
    share, and the draft waits for its turn.
    """
    if target.type != "cpu" or draft.type != "cpu":
        return ThreadLane([target, draft])
    threads = torch.get_num_threads()
    return ThreadLane([], ThreadPace(threads)) if threads > 1 else InlineLane()
