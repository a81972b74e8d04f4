"""The use case: one video, one loaded pair, one or many questions, records as answers.

The only place that joins video, models, engine and output. Making a :class:`Captioner` is cheap: it
finds the models and their geometry, so that decoding can start while torch, transformers and the
weights load.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vidcap.errors import InputError, UsageError, VidcapError
from vidcap.models.geometry import Geometry, read_geometry
from vidcap.models.pair import find_pair
from vidcap.output.record import ErrorPart, Kind, ModelPart, Record
from vidcap.output.source import read_source
from vidcap.settings import (
    DEFAULT_METHOD,
    GenerationSettings,
    ModelSettings,
    SpeculationSettings,
    VideoSettings,
    method_settings,
)
from vidcap.video import Frames, load_frames
from vidcap.video.background import Background

if TYPE_CHECKING:
    from vidcap.engine.policy import Policy
    from vidcap.models.loading import LoadedPair
    from vidcap.session import VideoSession


class Captioner:
    """Describes videos and answers questions about them with one pair.

    Attributes:
        pair_name: what the pair is called in messages and records.
        notices: what the user should be told once about the pair.
        load_s: seconds that loading took, None before.
        policy: what method ``auto`` has learnt about the pair, None before loading.
    """

    def __init__(
        self,
        model: ModelSettings,
        video: VideoSettings,
        generation: GenerationSettings,
        speculation: SpeculationSettings,
    ):
        """Finds the models on disk; imports no torch.

        Raises:
            ModelError: a model is missing or its family is unknown.
            UsageError: the settings contradict each other.
        """
        self.model = model
        self.video = video
        self.generation = generation
        self.speculation = speculation
        self._folders = find_pair(model, needs_draft=speculation.needs_draft)
        self._geometry = read_geometry(self._folders.target)
        self.pair_name = self._folders.name
        self.notices: tuple[str, ...] = (self._folders.notice,) if self._folders.notice else ()
        self.load_s: float | None = None
        self._pair: LoadedPair | None = None
        self.policy: Policy | None = None
        self._decoding: dict[str, Background[tuple[Frames, float]]] = {}

    @property
    def geometry(self) -> Geometry:
        """Sizes and token counts of the target, known without its weights."""
        return self._geometry

    def variant(self, speculation: SpeculationSettings) -> Captioner:
        """A captioner with another method on the same loaded pair.

        Raises:
            UsageError: the method drafts and this captioner's pair has no draft.
        """
        if speculation.needs_draft and self._folders.draft is None:
            raise UsageError(f"method '{speculation.method}' drafts, but no draft model was given")
        self.load()
        other = copy.copy(self)
        other.speculation = speculation
        other._decoding = {}
        other.policy = copy.deepcopy(self.policy)
        return other

    def prefetch(self, path: str | os.PathLike[str]) -> None:
        """Start to decode a video in a thread; :meth:`open` takes the result."""
        name = os.fspath(path)
        if name not in self._decoding:
            self._decoding[name] = self._start(name)

    def load(self) -> LoadedPair:
        """Import torch and load the weights; later calls return the loaded pair.

        Raises:
            ModelError: the pair cannot be loaded or does not match.
        """
        if self._pair is None:
            begin = time.perf_counter()
            from vidcap.engine.policy import Policy
            from vidcap.models.loading import load_pair_folders

            self._pair = load_pair_folders(self._folders, self.model)
            self.policy = Policy()
            self.load_s = time.perf_counter() - begin
        return self._pair

    def open(self, path: str | os.PathLike[str]) -> VideoSession:
        """Decode a video and run it through both models, once for all questions about it.

        Raises:
            InputError: the file cannot be used.
            ModelError: the pair cannot be loaded.
        """
        begin = time.perf_counter()
        name = os.fspath(path)
        decoding = self._decoding.pop(name, None) or self._start(name)
        try:
            self.load()
            frames, decode_s = decoding.result()
        finally:
            decoding.cancel()
        return self.open_frames(name, frames, decode_s=decode_s, begin=begin)

    def open_frames(
        self, path: str, frames: Frames, *, decode_s: float = 0.0, begin: float | None = None
    ) -> VideoSession:
        """Like :meth:`open` for frames that are decoded already.

        Args:
            path: what the record says they come from.
            frames: decoded at the size that this captioner's model wants.
            decode_s: seconds that decoding took, for the record.
            begin: ``time.perf_counter()`` at the start of the work, None for now.
        """
        pair = self.load()
        from vidcap.session import VideoSession

        with explained_memory():
            return VideoSession(
                self, pair, path, frames, decode_s, time.perf_counter() if begin is None else begin
            )

    def decode(self, path: str | os.PathLike[str]) -> Frames:
        """Sample and decode a video at the size that the model wants.

        Raises:
            InputError: the file cannot be used.
        """
        return self._decode(os.fspath(path), lambda: False)[0]

    def settings_hash(self, prompt: str) -> str:
        """Equal for runs whose settings and prompt give the same text.

        Threads, devices and, while decoding is greedy, the method are left out: a strict method
        changes the speed only. Samples depend on the order in which random numbers are used up,
        so there it counts.
        """
        relevant: dict[str, Any] = {
            "prompt": prompt,
            "target": self._folders.target_name,
            "revision": self.model.revision,
            "dtype": self.model.dtype,
            "positions": self.model.positions,
            "video": asdict(self.video),
            "generation": asdict(self.generation),
        }
        if self.generation.temperature > 0:
            relevant["speculation"] = asdict(self.speculation)
        text = json.dumps(relevant, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def error_record(
        self,
        path: str,
        error: VidcapError,
        kind: Kind = "describe",
        prompt: str | None = None,
        question: str | None = None,
    ) -> Record:
        """The record of an input that failed."""
        return Record(
            path=path,
            kind=kind,
            status="error",
            prompt=prompt,
            question=question,
            source=read_source(path),
            model=self.model_part(),
            settings_hash=self.settings_hash(prompt or ""),
            error=ErrorPart(type(error).__name__, error.message, error.hint),
        )

    def model_part(self) -> ModelPart:
        """What the record says about the models."""
        pair = self._pair
        return ModelPart(
            pair=self.pair_name,
            target=self._folders.target_name,
            draft=self._folders.draft_name if self.speculation.needs_draft else None,
            device=pair.device if pair else None,
            dtype=pair.dtype if pair else None,
            attention=pair.attention if pair else None,
            positions=self.model.positions,
        )

    def _start(self, path: str) -> Background[tuple[Frames, float]]:
        return Background(lambda stop: self._decode(path, stop))

    def _decode(self, path: str, should_stop: Callable[[], bool]) -> tuple[Frames, float]:
        begin = time.perf_counter()
        frames = load_frames(
            path,
            self.video,
            self._frame_size,
            threads=self.model.threads or os.cpu_count() or 1,
            should_stop=should_stop,
        )
        return frames, time.perf_counter() - begin

    def _frame_size(self, count: int, height: int, width: int) -> tuple[int, int]:
        return self._geometry.frame_size(count, height, width, self.video.max_pixels)


@contextmanager
def explained_memory() -> Iterator[None]:
    """Turns an out-of-memory failure of torch inside the block into one line."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        raise _too_large() from error
    except RuntimeError as error:
        # The CPU allocator raises a plain RuntimeError.
        if "not enough memory" in str(error) or "alloc" in str(error).lower():
            raise _too_large() from error
        raise


def _too_large() -> InputError:
    return InputError("out of memory", hint="use fewer frames (--max-frames) or --max-pixels")


def load_pair(
    pair: str | None = None,
    *,
    method: str = DEFAULT_METHOD,
    model: ModelSettings | None = None,
    video: VideoSettings | None = None,
    generation: GenerationSettings | None = None,
) -> Captioner:
    """A captioner with its weights loaded.

    Args:
        pair: preset, ``TARGET`` or ``TARGET+DRAFT``; hub ids or folders.
        method: name of a method preset.
        model: further model settings; `pair` must then be given there.
        video, generation: as on the command line, None for the defaults.

    Raises:
        ModelError: the pair is missing, broken or does not match.
        UsageError: the settings contradict each other.
    """
    if model is not None and pair is not None:
        raise UsageError("give the pair by name or in the model settings, not both")
    captioner = Captioner(
        model or ModelSettings(pair=pair),
        video or VideoSettings(),
        generation or GenerationSettings(),
        method_settings(method),
    )
    captioner.load()
    return captioner
