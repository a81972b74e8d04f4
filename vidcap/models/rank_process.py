"""One of several ranks: what it has to know, how it joins the others, and its process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from vidcap.engine.kv import KVCache
from vidcap.errors import ModelError
from vidcap.models.checkpoint import first_line
from vidcap.settings import AttentionName

#: Seconds for a process to end by itself, or for an error to be noticed where it happened.
PATIENCE_S = 5.0

#: Where gloo finds the other processes of this machine.
_LOOPBACK = {"linux": "lo", "darwin": "lo0"}


@dataclass(frozen=True, slots=True)
class RankStart:
    """What a rank has to know.

    Attributes:
        rank, count: which of how many it is.
        meeting: the file by which the ranks find each other.
        device: where it computes.
        folder: of the checkpoint.
        dtype: number format of the weights.
        attention: see :class:`vidcap.settings.ModelSettings`.
        threads: of its own on the CPU.
    """

    rank: int
    count: int
    meeting: Path
    device: str
    folder: Path
    dtype: torch.dtype
    attention: AttentionName
    threads: int

    @property
    def place(self) -> torch.device:
        """The device as torch has it."""
        return torch.device(self.device)


class RankSums:
    """Sums over all ranks; see :class:`vidcap.engine.shards.Shards`."""

    def __init__(self, count: int):
        self._count = count

    @property
    def count(self) -> int:
        """See :class:`vidcap.engine.shards.Shards`."""
        return self._count

    def sum(self, tensor: Tensor) -> Tensor:
        """See :class:`vidcap.engine.shards.Shards`."""
        dist.all_reduce(tensor)
        return tensor

    def note(self, cache: KVCache, change: str, arguments: tuple[Any, ...]) -> None:
        """Nothing: only the first rank has others to tell."""


@contextmanager
def joined(start: RankStart) -> Iterator[None]:
    """Within, this process is one of the ranks as transformers wants to know it.

    Leaves torch's process group open when all goes well.

    Raises:
        ModelError: the ranks do not reach each other.
    """
    names = {"LOCAL_RANK": str(start.place.index or 0)}
    if "GLOO_SOCKET_IFNAME" not in os.environ and sys.platform in _LOOPBACK:
        names["GLOO_SOCKET_IFNAME"] = _LOOPBACK[sys.platform]
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        _join(start)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _join(start: RankStart) -> None:
    cuda = start.place.type == "cuda"
    try:
        dist.init_process_group(
            "nccl" if cuda else "gloo",
            init_method=start.meeting.as_uri(),
            rank=start.rank,
            world_size=start.count,
            timeout=timedelta(minutes=30),
            device_id=start.place if cuda else None,
        )
    except (RuntimeError, OSError) as error:
        raise ModelError(
            f"the processes of --tensor-parallel do not reach each other: {first_line(error)}"
        ) from error


class OtherRank:
    """Another rank: its process, and what it has said."""

    def __init__(self, start: RankStart):
        """Starts it. Args: start: what it has to know."""
        # What this process would import, in its order: vidcap may lie anywhere.
        search = os.pathsep.join(filter(None, sys.path))
        self._words = start.meeting.with_suffix(f".{start.rank}")
        with self._words.open("wb") as words:
            self.process = subprocess.Popen(
                # -P: the folder that the user happens to be in is not searched for modules.
                [sys.executable, "-P", "-m", "vidcap.models.rank_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                env={**os.environ, "PYTHONPATH": search},
            )
        with suppress(OSError):  # why it has ended already is heard later
            self.tell(start)

    def tell(self, message: object) -> None:
        """Hand over a message.

        Raises:
            OSError: nobody is there.
        """
        assert self.process.stdin is not None
        pickle.dump(message, self.process.stdin)
        self.process.stdin.flush()

    def hear(self) -> str | None:
        """What it says next: a word, or the reason why it ends; None when it has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode("utf-8", "replace").strip()
        return line or None

    def last_words(self) -> str:
        """What it left behind when it ended without a reason."""
        code = self.process.wait()
        text = self._words.read_text("utf-8", "replace") if self._words.exists() else ""
        lines = text.strip().splitlines()
        return f"exit code {code}" + (f": {lines[-1]}" if lines else "")

    def dismiss(self, *, gently: bool) -> None:
        """Have it end, by itself where it waits for the next pass."""
        if not gently:
            self.process.kill()
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()

    def wait(self) -> None:
        """Wait for its end, or see to it."""
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
