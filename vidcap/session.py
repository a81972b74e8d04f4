"""One video behind both models: every question about it starts from the same prefill."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

import torch

from vidcap.decoding import answer_limits, logits_settings, sampling_settings
from vidcap.engine.loop import Generation
from vidcap.engine.margins import choice_margins
from vidcap.engine.request import Request
from vidcap.engine.schedule import OpenedVideo, PrefillJob
from vidcap.engine.stats import Stats
from vidcap.errors import InputError
from vidcap.models.text_stream import TextStream
from vidcap.output.record import Kind, Record, TokenCounts
from vidcap.output.source import read_source
from vidcap.preprocess import preprocess
from vidcap.record_parts import Stopwatch, speculation_part, video_part
from vidcap.setup import LoadedModels, Setup
from vidcap.shortage import explained_memory
from vidcap.trace import Trace

if TYPE_CHECKING:
    from vidcap.models.protocol import VideoInputs, VideoModel
    from vidcap.video import Frames


class VideoSession:
    """A prefilled video; a context manager that lets go of its memory at the end."""

    def __init__(
        self,
        setup: Setup,
        models: LoadedModels,
        path: str,
        frames: Frames,
        clock: Stopwatch,
        trace: Trace | None = None,
    ):
        """Preprocesses, encodes and prefills, a parallel method with the first answer.

        Use :meth:`vidcap.captioner.Captioner.open`.

        Args:
            setup: the method and the other settings.
            models: the pair.
            path: what the record says the frames come from.
            frames: decoded at the size that the target wants.
            clock: started when the work on the video began.
            trace: gets what happens and when, None where nobody asked.
        """
        self._setup = setup
        self._loaded = models
        self._trace = trace
        self._path = path
        self._source = read_source(path)
        self._clock: Stopwatch | None = clock
        self._stats = self._new_stats()
        self._video = video_part(frames)
        self._warnings = frames.warnings
        with clock.preprocessing(), self._span("preprocess"):
            inputs = self._prepare(frames)
        self._visual_tokens = inputs[0].visual_tokens
        self._prefix_tokens = inputs[0].ids.shape[1]
        self._check_length(self._prefix_tokens)
        self._opened: OpenedVideo | None = self._open(inputs)

    def __enter__(self) -> VideoSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the prefilled keys and values."""
        self._opened = None

    def answer(
        self,
        prompt: str,
        *,
        kind: Kind = "describe",
        question: str | None = None,
        on_text: Callable[[str], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        watch: Callable[[Generation], Iterable[tuple[int, ...]]] = iter,
    ) -> Record:
        """Generate the answer to `prompt`.

        Args:
            prompt: the words after the video.
            kind, question: for the record.
            on_text: gets pieces of text as they are accepted.
            should_stop: asked between rounds; True ends the answer with what there is.
            watch: gets the generation before it runs and iterates over it, for measurements.

        Raises:
            UsageError: the prompt contains control tokens of the model.
            InputError: out of memory.
        """
        opened, request = self._open_video(), self._request(prompt)
        stats, clock = self._take_stats(), self._take_clock()
        stream = TextStream(self._loaded.pair.target.tokenizer)
        with explained_memory(), self._span("answer"):
            generation = opened.start(request, stats, should_stop or (lambda: False))
            for tokens in watch(generation):
                clock.note_token()
                _hand_out(stream.push(tokens), on_text)
        _hand_out(stream.finish(), on_text)
        return Record(
            path=self._path,
            kind=kind,
            prompt=prompt,
            question=question,
            text=stream.text,
            finish_reason=generation.finish_reason,
            warnings=self._warnings,
            source=self._source,
            video=self._video,
            model=self._setup.model_part(self._loaded.pair),
            tokens=self._token_counts(request, stats),
            speculation=speculation_part(self._setup.speculation, stats, request.policy),
            timing=clock.timing(stats, self._loaded.load_s),
            settings_hash=self._setup.settings_hash(prompt),
        )

    def margins(self, prompt: str, tokens: Sequence[int]) -> list[float]:
        """By how much the target preferred each token of its own answer to `prompt`.

        Args:
            prompt: the words after the video.
            tokens: the answer, at least one token.

        Returns:
            best score minus second best, per token.
        """
        opened, request = self._open_video(), self._request(prompt)
        return choice_margins(opened.prompt.target, request.suffix_ids, request.logits, tokens)

    def _open_video(self) -> OpenedVideo:
        if self._opened is None:
            raise ValueError("the session is closed")
        return self._opened

    def _prepare(self, frames: Frames) -> list[VideoInputs]:
        """Preprocessed frames for each model of the pair."""
        return preprocess(self._models(), frames, self._setup.video.fps)

    def _check_length(self, prompt_tokens: int) -> None:
        """Raise InputError where prompt and answer exceed what a model was made for."""
        limit = min(model.rules.max_positions for model in self._models())
        answer = self._setup.generation.max_tokens
        if prompt_tokens + answer > limit:
            raise InputError(
                f"{prompt_tokens} prompt tokens and {answer} for the answer are more than the "
                f"{limit} that the model holds",
                hint="use fewer or smaller frames (--max-frames, --max-pixels) or --max-tokens",
            )

    def _span(self, name: str) -> AbstractContextManager[None]:
        return nullcontext() if self._trace is None else self._trace.span(name)

    def _models(self) -> list[VideoModel]:
        pair = self._loaded.pair
        draft = pair.draft if self._setup.speculation.needs_draft else None
        return [model for model in (pair.target, draft) if model is not None]

    def _open(self, inputs: list[VideoInputs]) -> OpenedVideo:
        jobs = self._jobs(inputs)
        draft = jobs[1] if len(jobs) > 1 else None
        policy = self._loaded.policy
        return OpenedVideo(jobs[0], draft, self._setup.speculation, self._stats, policy)

    def _jobs(self, inputs: list[VideoInputs]) -> list[PrefillJob]:
        """What it takes to prefill each model of the pair."""
        positions, models = self._setup.model.positions, self._models()
        tower = self._loaded.pair.tower
        if tower is not None and self._setup.shares_tower(self._loaded.pair):
            video = tower.open(inputs[0], positions)
            return [
                PrefillJob(models[0].language, video.target),
                PrefillJob(models[1].language, video.draft, follows=True),
            ]
        return [
            PrefillJob(model.language, partial(model.encode, item, positions))
            for model, item in zip(models, inputs, strict=True)
        ]

    def _request(self, prompt: str) -> Request:
        target, generation = self._loaded.pair.target, self._setup.generation
        rules, speculation = target.rules, self._setup.speculation
        strict_ids: frozenset[int] = frozenset()
        if speculation.verify == "loose":
            guarded = speculation.guard_words == "on"
            strict_ids = target.strict_ids | (target.fact_ids if guarded else frozenset())
        ids = target.suffix_ids(prompt).to(target.language.kv_spec.device)
        self._check_length(self._prefix_tokens + ids.shape[1])
        return Request(
            suffix_ids=ids,
            limits=answer_limits(generation, rules),
            logits=logits_settings(generation, rules),
            sampling=sampling_settings(generation),
            strict_ids=strict_ids,
            policy=self._loaded.policy,
        )

    def _new_stats(self) -> Stats:
        places = {device for model in self._models() for device in model.language.kv_spec.devices}
        cuda = [device for device in places if device.type == "cuda"]
        wait = partial(_synchronize, cuda) if cuda else None
        return Stats(synchronize=wait, trace=self._trace)

    def _take_stats(self) -> Stats:
        """The first answer accounts for the prefill, later ones start from nothing."""
        stats, self._stats = self._stats, self._new_stats()
        return stats

    def _take_clock(self) -> Stopwatch:
        """The first answer accounts for the work on the video as well."""
        clock, self._clock = self._clock, None
        return clock or Stopwatch(time.perf_counter())

    def _token_counts(self, request: Request, stats: Stats) -> TokenCounts:
        return TokenCounts(
            prompt=self._prefix_tokens + request.suffix_ids.shape[1],
            visual=self._visual_tokens,
            draft_visual=stats.draft_visual,
            generated=stats.generated,
        )


def _synchronize(devices: list[torch.device]) -> None:
    """Wait for what this thread has given the devices to do, not for other streams."""
    for device in devices:
        torch.cuda.current_stream(device).synchronize()


def _hand_out(text: str, on_text: Callable[[str], None] | None) -> None:
    if text and on_text is not None:
        on_text(text)
