"""The first of several ranks: it starts the others, and has them repeat its passes.

The others (:mod:`vidcap.models.rank_worker`) wait at a pipe. Before each pass of the target they
get its numbers and what was done to keys and values, then its tensors; then all ranks run the same
layers, which add up their parts. When the pipe ends, because this process closes it or ends in
whatever way, they end as well.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from vidcap.engine.attention import AttentionStep
from vidcap.engine.kv import KVCache, KVSpec
from vidcap.engine.model import LanguageModel
from vidcap.errors import ModelError
from vidcap.models.passes import CacheName, Change, describe, tensors_of
from vidcap.models.placement import Placement
from vidcap.models.rank_process import PATIENCE_S, OtherRank, RankStart, RankSums, joined
from vidcap.settings import AttentionName


class Ranks(RankSums):
    """All ranks, as the first of them drives them.

    A pass that fails anywhere leaves them out of step: then all of them are ended.
    """

    def __init__(self, start: RankStart, devices: Sequence[str]):
        """Starts the other processes, which take their time.

        Args:
            start: of this rank.
            devices: of the others.

        Raises:
            ModelError: this process has ranks already.
        """
        super().__init__(start.count)
        if dist.is_initialized():
            raise ModelError("--tensor-parallel runs one pair at a time in a process")
        self._folder = tempfile.TemporaryDirectory(prefix="vidcap-", ignore_cleanup_errors=True)
        self.start = replace(start, meeting=Path(self._folder.name) / "ranks")
        self._changes: deque[Change] = deque()
        self._names: weakref.WeakKeyDictionary[KVCache, CacheName] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._ready = threading.Semaphore(0)
        self._failure: str | None = None
        self._closed = False
        self._joined = False
        self._loaded = False
        self._others = [
            OtherRank(replace(self.start, rank=rank, device=device))
            for rank, device in enumerate(devices, start=1)
        ]
        atexit.register(self.close)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Within, the weights are loaded, here and in all other ranks.

        Raises:
            ModelError: a rank cannot load them.
        """
        try:
            self._expect("here")
            for other in self._others:
                other.tell(True)
                threading.Thread(target=self._watch, args=(other,), daemon=True).start()
            with joined(self.start):
                self._joined = True
                yield
            self._await_others()
            self._loaded = True
        except BaseException:
            self.close()
            raise

    @contextmanager
    def passing(self, embeds: Tensor, position_ids: Tensor, step: AttentionStep) -> Iterator[None]:
        """Within, a pass runs here, and in all other ranks.

        Raises:
            ModelError: a rank is lost.
        """
        with self._lock:
            if self._closed:
                raise ModelError(self._reason())
            try:
                self._begin(embeds, position_ids, step)
                yield
            except BaseException as error:
                self._give_up(error)
                raise

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        """Those of the other ranks."""
        return [other.process for other in self._others]

    def note(self, cache: KVCache, change: str, arguments: tuple[Any, ...]) -> None:
        """See :class:`vidcap.engine.shards.Shards`."""
        if change == "new":
            name = self._names[cache] = CacheName(id(cache))
            # May run anywhere, so it does no more than this.
            weakref.finalize(cache, self._changes.append, Change(name, "drop"))
        self._changes.append(Change(self._names[cache], change, self._named(arguments)))

    def close(self) -> None:
        """End the other ranks and leave torch's process group."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        for other in self._others:
            other.dismiss(gently=self._loaded and self._failure is None)
        for other in self._others:
            other.wait()
        self._folder.cleanup()
        if dist.is_initialized():
            dist.destroy_process_group()

    def _named(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            self._names[each]
            if isinstance(each, KVCache)
            else each.cpu()
            if isinstance(each, Tensor)
            else each
            for each in arguments
        )

    def _begin(self, embeds: Tensor, position_ids: Tensor, step: AttentionStep) -> None:
        tensors = tensors_of(embeds, position_ids, step)
        changes = []
        while self._changes:
            changes.append(self._changes.popleft())
        message = describe(changes, self._names[step.kv], tensors, step)
        for other in self._others:
            other.tell(message)
        for tensor in tensors:
            if tensor is not None and tensor.numel():
                dist.broadcast(tensor.to(self.start.place).contiguous(), src=0)

    def _expect(self, word: str) -> None:
        for rank, other in enumerate(self._others, start=1):
            heard = other.hear()
            if heard != word:
                words = heard or other.last_words()
                raise ModelError(f"rank {rank} of --tensor-parallel: {words}")

    def _await_others(self) -> None:
        for _ in self._others:
            while not self._ready.acquire(timeout=0.1):
                if self._failure is not None:
                    raise ModelError(self._reason())

    def _watch(self, other: OtherRank) -> None:
        """Notice when another rank ends; nobody else would where torch waits for it."""
        words = other.hear()
        if words == "loaded":
            self._ready.release()
            words = other.hear()
        if self._closed:
            return
        self._failure = words or other.last_words()
        if self._joined and self.start.place.type != "cuda":
            return  # gloo notices
        time.sleep(PATIENCE_S)
        if not self._closed:
            # The main thread waits for it to join, or for a GPU, where no exception reaches it.
            self._folder.cleanup()
            os.write(2, f"vidcap: error: {self._reason()}\n".encode())
            os._exit(ModelError.exit_code)

    def _give_up(self, error: BaseException) -> None:
        """End all ranks after a pass that failed; explain it where it was not this one."""
        lost = isinstance(error, OSError | dist.DistError) or "gloo" in str(error).lower()
        if lost:
            deadline = time.monotonic() + PATIENCE_S
            while self._failure is None and time.monotonic() < deadline:
                time.sleep(0.05)
        self._failure = self._failure or f"a pass failed ({type(error).__name__})"
        self.close()
        if lost:
            raise ModelError(self._reason()) from error

    def _reason(self) -> str:
        words = self._failure or "they were closed"
        return f"the ranks of --tensor-parallel have ended: {words}"


def start_ranks(
    placement: Placement,
    folder: Path,
    dtype: torch.dtype,
    attention: AttentionName,
    threads: int,
) -> Ranks:
    """Start the ranks of a target; they get ready while this process goes on.

    Args:
        placement: with a device for each of them; on a CPU they share the threads.
        folder, dtype, attention: of the target.
        threads: of all of them on a CPU.
    """
    count = len(placement.ranks)
    share = max(1, threads // count) if placement.first == "cpu" else 1
    if placement.first == "cpu":
        torch.set_num_threads(share)
    start = RankStart(0, count, Path(), placement.first, folder, dtype, attention, share)
    return Ranks(start, placement.ranks[1:])


class ShardedLanguageModel:
    """The target's text half in the first rank: a pass here is a pass in all of them.

    Satisfies :class:`vidcap.engine.model.LanguageModel`.
    """

    def __init__(self, own: LanguageModel, ranks: Ranks):
        """Args:
        own: what this rank has.
        ranks: all of them.
        """
        self._own = own
        self._ranks = ranks

    @property
    def kv_spec(self) -> KVSpec:
        """Sizes of this rank's keys and values."""
        return self._own.kv_spec

    def embed(self, ids: Tensor) -> Tensor:
        """See :class:`vidcap.engine.model.LanguageModel`."""
        return self._own.embed(ids)

    def forward(self, embeds: Tensor, position_ids: Tensor, step: AttentionStep) -> Tensor:
        """See :class:`vidcap.engine.model.LanguageModel`."""
        with self._ranks.passing(embeds, position_ids, step):
            return self._own.forward(embeds, position_ids, step)

    def logits(self, hidden: Tensor) -> Tensor:
        """See :class:`vidcap.engine.model.LanguageModel`."""
        return self._own.logits(hidden)
