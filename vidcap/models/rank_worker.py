"""A process with a share of the target's layers; see :mod:`vidcap.models.ranks`."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO

import torch
import torch.distributed as dist
from torch import Tensor

from vidcap.engine.kv import KVCache, KVSpec
from vidcap.errors import VidcapError
from vidcap.models.checkpoint import first_line, read_checkpoint
from vidcap.models.cutting import keep_layers_only
from vidcap.models.loading import load_released
from vidcap.models.passes import CacheName, Change, Pass
from vidcap.models.placement import Placement
from vidcap.models.rank_process import RankStart, RankSums, joined
from vidcap.models.released import ReleasedLanguageModel

_STDIN, _STDOUT, _STDERR = 0, 1, 2

#: Seconds for a pass that is under way when the first rank has gone.
_PATIENCE_S = 2.0


def main() -> int:
    """Repeats the passes of the first rank until it is gone; returns the exit code."""
    # Ctrl-C reaches the whole process group; the first rank decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.dup(_STDOUT)
    # Nothing that a library prints may get between the answers.
    os.dup2(_STDERR, _STDOUT)

    def say(words: str) -> None:
        with suppress(OSError):
            os.write(answers, (" ".join(words.split()) + "\n").encode())

    messages: SimpleQueue[object] = SimpleQueue()
    reader = threading.Thread(target=_read, args=(sys.stdin.buffer, messages), daemon=True)
    reader.start()
    try:
        _serve(messages, say)
    except VidcapError as error:
        say(error.message)
        return 1
    except Exception as error:
        say(f"{type(error).__name__}: {first_line(error)}")
        # Where the first rank has gone, which ends a pass as well, the reader tidies up.
        reader.join(_PATIENCE_S)
        return 1
    return 0


def _read(pipe: BinaryIO, messages: SimpleQueue[object]) -> None:
    """Hand on what the first rank says; when it is gone, tidy up and end this process."""
    folder = None
    try:
        while True:
            message = pickle.load(pipe)
            if isinstance(message, RankStart):
                folder = message.meeting.parent
            messages.put(message)
    except (EOFError, OSError, pickle.UnpicklingError):
        if folder is not None:
            # The first rank may have ended in a way that left it no time for that.
            shutil.rmtree(folder, ignore_errors=True)
        messages.put(None)
    # A pass in which the others are missing would wait for them.
    threading.Event().wait(_PATIENCE_S)
    os._exit(1)


@torch.inference_mode()
def _serve(messages: SimpleQueue[object], say: Callable[[str], None]) -> None:
    start = messages.get()
    if not isinstance(start, RankStart):
        return
    torch.set_num_threads(start.threads)
    checkpoint, sums = read_checkpoint(start.folder), RankSums(start.count)
    say("here")
    if messages.get() is None:
        return
    with joined(start):
        model = load_released(
            checkpoint, Placement(start.device), start.dtype, start.attention, sums
        )
    keep_layers_only(model)
    language = ReleasedLanguageModel(model, attention=start.attention, shards=sums)
    say("loaded")
    mirror = Mirror(language.kv_spec)
    while isinstance(message := messages.get(), Pass):
        _repeat(message, mirror, language)


class Mirror:
    """Keys and values as the first rank has them.

    Attributes:
        caches: by the name that the first rank gave them.
    """

    def __init__(self, spec: KVSpec):
        """Args: spec: sizes of this rank's keys and values."""
        self.caches: dict[CacheName, KVCache] = {}
        self._spec = spec

    def change(self, change: Change) -> None:
        """Do as the first rank did."""
        if change.name == "drop":
            del self.caches[change.cache]
            return
        arguments = [self._own(argument) for argument in change.arguments]
        if change.name == "new":
            self.caches[change.cache] = KVCache(self._spec, *arguments)
        else:
            getattr(self.caches[change.cache], change.name)(*arguments)

    def _own(self, argument: Any) -> Any:
        if isinstance(argument, CacheName):
            return self.caches[argument]
        return argument.to(self._spec.device) if isinstance(argument, Tensor) else argument


def _repeat(message: Pass, mirror: Mirror, language: ReleasedLanguageModel) -> None:
    """Run a pass of the first rank here."""
    for change in message.changes:
        mirror.change(change)
    device = language.kv_spec.device
    tensors = [None if form is None else form.empty(device) for form in message.tensors]
    for tensor in tensors:
        if tensor is not None and tensor.numel():
            dist.broadcast(tensor, src=0)
    embeds, positions = tensors[:2]
    assert embeds is not None
    assert positions is not None
    language.forward(embeds, positions, message.step(tensors, mirror.caches[message.cache]))


if __name__ == "__main__":
    # What torch would tidy up, at leisure and with the others, ends with the process.
    os._exit(main())
