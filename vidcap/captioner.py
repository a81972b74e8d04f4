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
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vidcap.errors import UsageError, VidcapError
from vidcap.footage import Footage
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
from vidcap.shortage import explained_memory
from vidcap.threads import available_threads, can_share, share_threads
from vidcap.trace import Trace
from vidcap.video import Frames, Window
from vidcap.video.isolation import Isolation

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
        trace: gets what every thread does, None where nobody asked.
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
        self.trace: Trace | None = None
        self._ahead = False
        self._ahead_threads = 0
        self._isolation: Isolation | None = None
        self._footage = self._new_footage()

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
        other._footage = self._new_footage()
        other.policy = copy.deepcopy(self.policy)
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
        self.trace = trace
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
        if self._pair is None:
            begin = time.perf_counter()
            from vidcap.engine.policy import Policy
            from vidcap.models.loading import load_pair_folders

            self._pair = load_pair_folders(self._folders, self.model)
            self._share_threads(self._pair)
            self.policy = Policy()
            end = time.perf_counter()
            self.load_s = end - begin
            if self.trace is not None:
                self.trace.add("load models", begin, end)
        return self._pair

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
        return self._footage.decode(os.fspath(path))

    def settings_hash(self, prompt: str) -> str:
        """Equal for runs whose settings and prompt give the same text.

        Threads, devices and, while decoding is greedy, the method are left out: a strict method
        changes the speed only. Loose methods change the text, and samples depend on the order in
        which random numbers are used up: there it counts.
        """
        relevant: dict[str, Any] = {
            "prompt": prompt,
            "target": self._folders.target_name,
            "revision": self.model.revision,
            "dtype": self.model.dtype,
            # Named only where it is used, so that older results stay valid.
            **({"quantize": self.model.quantize} if self.model.quantize != "none" else {}),
            "positions": self.model.positions,
            "video": asdict(self.video),
            "generation": asdict(self.generation),
        }
        if self.generation.temperature > 0 or self.speculation.verify == "loose":
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

    def _new_footage(self) -> Footage:
        threads = available_threads(self.model.threads)
        return Footage(self.video, self._frame_size, threads, self.trace, self._isolation)

    def _share_threads(self, pair: LoadedPair) -> None:
        import torch

        total, on_cpu = available_threads(self.model.threads), pair.device == "cpu"
        shares = share_threads(total, ahead=self._ahead, on_cpu=on_cpu)
        torch.set_num_threads(shares.models)
        self._ahead_threads = shares.decoder

    def _frame_size(self, count: int, height: int, width: int) -> tuple[int, int]:
        return self._geometry.frame_size(count, height, width, self.video.max_pixels)


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
