"""The use case: one video, one loaded pair, one or many questions, records as answers.

The only place that joins video, models, engine and output. Making a :class:`Captioner` is cheap: it
finds the models and their geometry, so that decoding can start while torch, transformers and the
weights load.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from vidcap.errors import UsageError, VidcapError
from vidcap.footage import Footage
from vidcap.models.geometry import Geometry, read_geometry
from vidcap.models.pair import find_pair
from vidcap.models.parallel import check_parallel
from vidcap.output.record import ErrorPart, Kind, ModelPart, Record
from vidcap.output.source import read_source
from vidcap.record_parts import Stopwatch
from vidcap.settings import (
    DEFAULT_METHOD,
    GenerationSettings,
    ModelSettings,
    SpeculationSettings,
    VideoSettings,
    method_settings,
)
from vidcap.setup import LoadedModels, Setup
from vidcap.shortage import explained_memory
from vidcap.threads import available_threads, can_share, share_threads
from vidcap.trace import Trace
from vidcap.video import Frames, Window
from vidcap.video.isolation import Isolation

if TYPE_CHECKING:
    from vidcap.models.loading import LoadedPair
    from vidcap.session import VideoSession


class Captioner:
    """Describes videos and answers questions about them with one pair.

    Attributes:
        pair_name: what the pair is called in messages and records.
        notices: what the user should be told once about the pair.
        geometry: sizes and token counts of the target, known without its weights.
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
        check_parallel(model)
        folders = find_pair(model, needs_draft=speculation.needs_draft)
        self._setup = Setup(folders, model, video, generation, speculation)
        self.geometry: Geometry = read_geometry(folders.target)
        self.pair_name = folders.name
        self.notices: tuple[str, ...] = (folders.notice,) if folders.notice else ()
        self._models: LoadedModels | None = None
        self._trace: Trace | None = None
        self._ahead = False
        self._ahead_threads = 0
        self._isolation: Isolation | None = None
        self._footage = self._new_footage()

    @property
    def model(self) -> ModelSettings:
        """Which pair, and where and how it runs."""
        return self._setup.model

    @property
    def video(self) -> VideoSettings:
        """Which frames the pair sees."""
        return self._setup.video

    @property
    def generation(self) -> GenerationSettings:
        """How its text is decoded."""
        return self._setup.generation

    @property
    def speculation(self) -> SpeculationSettings:
        """The method."""
        return self._setup.speculation

    @property
    def load_s(self) -> float | None:
        """Seconds that loading took, None before."""
        return self._models.load_s if self._models else None

    def variant(self, speculation: SpeculationSettings) -> Captioner:
        """A captioner with another method on the same loaded pair.

        Raises:
            UsageError: the method drafts and this captioner's pair has no draft.
        """
        if speculation.needs_draft and self._setup.folders.draft is None:
            raise UsageError(f"method '{speculation.method}' drafts, but no draft model was given")
        models, other = self._load(), copy.copy(self)
        other._setup = replace(self._setup, speculation=speculation)
        other._models = replace(models, policy=copy.deepcopy(models.policy))
        other._footage = self._new_footage()
        return other

    def decode_ahead(self) -> bool:
        """Keep threads for decoding the next video while the models run; before loading.

        Returns:
            False where there are too few; the models then keep them all.
        """
        self._ahead = can_share(available_threads(self.model.threads))
        return self._ahead

    def isolate_decoding(self) -> None:
        """Decode in a process of its own from now on, where the system can; before decoding.

        A crash of the native decoder then is an error of one video. Costs little per video, but
        the start of a process.
        """
        if Isolation.is_possible():
            self._isolation = Isolation()
            self._footage = self._new_footage()

    def record_trace(self, trace: Trace) -> None:
        """Note what every thread does from now on in `trace`; before anything is decoded."""
        self._trace = trace
        self._footage = self._new_footage()

    def prefetch(self, path: str | os.PathLike[str], *, ahead: bool = False) -> None:
        """Start to decode a video in a thread; :meth:`open` and :meth:`windows` take the result.

        Args:
            path: the video.
            ahead: whether the models will be busy meanwhile, so that only the threads kept by
                :meth:`decode_ahead` may be used.
        """
        self._footage.prefetch(os.fspath(path), self._ahead_threads if ahead else None)

    def check(self, path: str | os.PathLike[str]) -> None:
        """Find out, without models, whether anything in a file can be decoded.

        Raises:
            InputError: the file cannot be used.
        """
        self._footage.check(os.fspath(path))

    def load(self) -> LoadedPair:
        """Import torch and load the weights; later calls return the loaded pair.

        Raises:
            ModelError: the pair cannot be loaded or does not match.
        """
        return self._load().pair

    def open(self, path: str | os.PathLike[str]) -> VideoSession:
        """Decode a video and run it through both models, once for all questions about it.

        Raises:
            InputError: the file cannot be used.
            ModelError: the pair cannot be loaded.
        """
        begin = time.perf_counter()
        name = os.fspath(path)
        frames, decode_s = self._footage.take(name, meanwhile=self.load)
        return self.open_frames(name, frames, decode_s=decode_s, begin=begin)

    def windows(self, path: str | os.PathLike[str]) -> Iterator[Window]:
        """The windows of a video, or the whole of it as the only one, for :meth:`open_frames`.

        They are decoded one by one, and nothing is kept of those that were handed out.

        Raises:
            InputError: the file cannot be used.
        """
        return self._footage.windows(os.fspath(path))

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
        models = self._load()
        from vidcap.session import VideoSession

        clock = Stopwatch(time.perf_counter() if begin is None else begin, decode_s)
        with explained_memory():
            return VideoSession(self._setup, models, path, frames, clock, self._trace)

    def decode(self, path: str | os.PathLike[str]) -> Frames:
        """Sample and decode a video at the size that the model wants.

        Raises:
            InputError: the file cannot be used.
        """
        return self._footage.decode(os.fspath(path))

    def settings_hash(self, prompt: str) -> str:
        """See :meth:`vidcap.setup.Setup.settings_hash`."""
        return self._setup.settings_hash(prompt)

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
        """See :meth:`vidcap.setup.Setup.model_part`."""
        return self._setup.model_part(self._models.pair if self._models else None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about how the pair was loaded; nothing before it is."""
        return self._models.pair.warnings if self._models else ()

    def _load(self) -> LoadedModels:
        if self._models is None:
            begin = time.perf_counter()
            from vidcap.engine.attention import rows_per_block
            from vidcap.engine.costs import CostTable
            from vidcap.engine.policy import Policy
            from vidcap.models.loading import load_pair_folders

            pair = load_pair_folders(self._setup.folders, self.model)
            self._share_threads(pair)
            end = time.perf_counter()
            block = rows_per_block(pair.target.language.kv_spec)
            self._models = LoadedModels(pair, Policy(costs=CostTable(block)), load_s=end - begin)
            if self._trace is not None:
                self._trace.add("load models", begin, end)
        return self._models

    def _new_footage(self) -> Footage:
        threads = available_threads(self.model.threads)
        return Footage(self.video, self._frame_size, threads, self._trace, self._isolation)

    def _share_threads(self, pair: LoadedPair) -> None:
        import torch

        total, on_cpu = available_threads(self.model.threads), pair.device == "cpu"
        if on_cpu:
            total = max(1, total // self.model.tensor_parallel)
        shares = share_threads(total, ahead=self._ahead, on_cpu=on_cpu)
        torch.set_num_threads(shares.models)
        self._ahead_threads = shares.decoder

    def _frame_size(self, count: int, height: int, width: int) -> tuple[int, int]:
        return self.geometry.frame_size(count, height, width, self.video.max_pixels)


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
