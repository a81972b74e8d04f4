"""One video behind both models: every question about it starts from the same prefill."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

import torch

from vidcap.engine.logits import LogitsSettings
from vidcap.engine.loop import Generation, Limits
from vidcap.engine.margins import choice_margins
from vidcap.engine.request import Request
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.schedule import OpenedVideo, PrefillJob
from vidcap.engine.stats import Stats
from vidcap.errors import InputError
from vidcap.models.text_stream import TextStream
from vidcap.output.record import (
    Kind,
    Record,
    SpeculationPart,
    TimingPart,
    TokenCounts,
    VideoPart,
)
from vidcap.output.source import read_source
from vidcap.settings import GenerationSettings, SpeculationSettings
from vidcap.shortage import explained_memory

if TYPE_CHECKING:
    from vidcap.captioner import Captioner
    from vidcap.models.loading import LoadedPair
    from vidcap.models.protocol import VideoInputs, VideoModel
    from vidcap.video import Frames


@dataclass(slots=True)
class _Clock:
    """Seconds outside the engine that the next answer accounts for."""

    begin: float
    decode_video_s: float = 0.0
    preprocess_s: float = 0.0
    first_token: float | None = None


class VideoSession:
    """A prefilled video; a context manager that lets go of its memory at the end."""

    def __init__(
        self,
        captioner: Captioner,
        pair: LoadedPair,
        path: str,
        frames: Frames,
        decode_s: float,
        begin: float,
    ):
        """Preprocesses, encodes and prefills, a parallel method with the first answer.

        Use :meth:`vidcap.captioner.Captioner.open`.
        """
        self._captioner = captioner
        self._pair = pair
        self._path = path
        self._source = read_source(path)
        self._clock = _Clock(begin, decode_video_s=decode_s)
        self._stats = self._new_stats()
        self._video = _video_part(frames)
        self._warnings = frames.warnings
        inputs = self._prepare(frames)
        self._visual_tokens = inputs[0].visual_tokens
        self._prefix_tokens = inputs[0].ids.shape[1]
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
        if self._opened is None:
            raise ValueError("the session is closed")
        request = self._request(prompt)
        stats, clock = self._take_stats(), self._take_clock()
        stream = TextStream(self._pair.target.tokenizer)
        with explained_memory(), self._span("answer"):
            generation = self._opened.start(request, stats, should_stop or (lambda: False))
            for tokens in watch(generation):
                clock.first_token = clock.first_token or time.perf_counter()
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
            model=self._captioner.model_part(),
            tokens=self._token_counts(request, stats),
            speculation=_speculation_part(self._captioner.speculation, request, generation),
            timing=self._timing(stats, clock),
            settings_hash=self._captioner.settings_hash(prompt),
        )

    def margins(self, prompt: str, tokens: Sequence[int]) -> list[float]:
        """By how much the target preferred each token of its own answer to `prompt`.

        Args:
            prompt: the words after the video.
            tokens: the answer, at least one token.

        Returns:
            best score minus second best, per token.
        """
        if self._opened is None:
            raise ValueError("the session is closed")
        request = self._request(prompt)
        return choice_margins(
            self._opened.prompt.target, request.suffix_ids, request.logits, tokens
        )

    def _prepare(self, frames: Frames) -> list[VideoInputs]:
        """Preprocessed frames for each model of the pair."""
        fps = model_fps(frames, self._captioner.video.fps)
        with _adding_to(self._clock, "preprocess_s"), self._span("preprocess"):
            inputs = _prepare_all(self._models(), frames, fps)
        self._check_length(inputs[0].ids.shape[1])
        return inputs

    def _check_length(self, prompt_tokens: int) -> None:
        """Raise InputError where prompt and answer exceed what a model was made for."""
        limit = min(model.rules.max_positions for model in self._models())
        answer = self._captioner.generation.max_tokens
        if prompt_tokens + answer > limit:
            raise InputError(
                f"{prompt_tokens} prompt tokens and {answer} for the answer are more than the "
                f"{limit} that the model holds",
                hint="use fewer or smaller frames (--max-frames, --max-pixels) or --max-tokens",
            )

    def _span(self, name: str) -> AbstractContextManager[None]:
        trace = self._captioner.trace
        return nullcontext() if trace is None else trace.span(name)

    def _models(self) -> list[VideoModel]:
        pair = self._pair
        draft = pair.draft if self._captioner.speculation.needs_draft else None
        return [model for model in (pair.target, draft) if model is not None]

    def _open(self, inputs: list[VideoInputs]) -> OpenedVideo:
        positions = self._captioner.model.positions
        jobs = [
            PrefillJob(model.language, partial(model.encode, item, positions))
            for model, item in zip(self._models(), inputs, strict=True)
        ]
        draft = jobs[1] if len(jobs) > 1 else None
        return OpenedVideo(jobs[0], draft, self._captioner.speculation, self._stats)

    def _request(self, prompt: str) -> Request:
        target, generation = self._pair.target, self._captioner.generation
        rules, loose = target.rules, self._captioner.speculation.verify == "loose"
        penalty = generation.repetition_penalty
        ids = target.suffix_ids(prompt).to(target.language.kv_spec.device)
        self._check_length(self._prefix_tokens + ids.shape[1])
        return Request(
            suffix_ids=ids,
            limits=Limits(generation.max_tokens, rules.stop_ids),
            logits=LogitsSettings(
                vocab_size=rules.vocab_size,
                suppress=rules.placeholder_ids,
                repetition_penalty=rules.repetition_penalty if penalty is None else penalty,
            ),
            sampling=_sampling(generation),
            strict_ids=target.strict_ids if loose else frozenset(),
            policy=self._captioner.policy,
        )

    def _new_stats(self) -> Stats:
        places = {model.language.kv_spec.device for model in self._models()}
        cuda = [device for device in places if device.type == "cuda"]
        wait = partial(_synchronize, cuda) if cuda else None
        return Stats(synchronize=wait, trace=self._captioner.trace)

    def _take_stats(self) -> Stats:
        """The first answer accounts for the prefill, later ones start from nothing."""
        stats, self._stats = self._stats, self._new_stats()
        return stats

    def _take_clock(self) -> _Clock:
        clock = self._clock
        self._clock = _Clock(begin=0.0)
        if not clock.begin:
            clock.begin = time.perf_counter()
        return clock

    def _token_counts(self, request: Request, stats: Stats) -> TokenCounts:
        return TokenCounts(
            prompt=self._prefix_tokens + request.suffix_ids.shape[1],
            visual=self._visual_tokens,
            draft_visual=stats.draft_visual,
            generated=stats.generated,
        )

    def _timing(self, stats: Stats, clock: _Clock) -> TimingPart:
        seconds = stats.seconds
        decode_s = seconds["decode"]
        return TimingPart(
            load_s=self._captioner.load_s,
            decode_video_s=clock.decode_video_s,
            preprocess_s=clock.preprocess_s,
            vision_s=seconds["vision"],
            target_prefill_s=seconds["target_prefill"],
            draft_prefill_s=seconds["draft_prefill"],
            draft_s=seconds["draft"],
            verify_s=seconds["verify"],
            other_s=max(0.0, decode_s - seconds["draft"] - seconds["verify"]),
            overlap_s=stats.overlap_s,
            ttft_s=clock.first_token - clock.begin if clock.first_token else None,
            decode_s=decode_s,
            total_s=time.perf_counter() - clock.begin,
            tokens_per_s=(stats.generated - 1) / decode_s if decode_s else None,
        )


def model_fps(frames: Frames, asked_fps: float) -> float:
    """Frames per second that the model is told.

    The mean spacing of the sampled frames, except where they sit on the asked grid as closely as
    the video's own frames allow: then it is the asked rate, because the temporal position ids are
    cut to whole numbers and a spacing of 0.4999 s would shift every one of them.
    """
    measured = frames.sampled_fps
    if measured is None:
        return asked_fps
    steps = len(frames.times_s) - 1
    own_spacing_s = 1 / frames.info.average_fps if frames.info.average_fps else 0.0
    if abs(steps / measured - steps / asked_fps) <= own_spacing_s:
        return asked_fps
    return measured


def _prepare_all(models: list[VideoModel], frames: Frames, fps: float) -> list[VideoInputs]:
    """Inputs per model; models that want the same share them."""
    inputs = [models[0].prepare(frames.rgb, fps)]
    for model in models[1:]:
        same = model.preprocessing == models[0].preprocessing
        inputs.append(inputs[0] if same else model.prepare(frames.rgb, fps))
    return inputs


def _synchronize(devices: list[torch.device]) -> None:
    """Wait for what this thread has given the devices to do, not for other streams."""
    for device in devices:
        torch.cuda.current_stream(device).synchronize()


@contextmanager
def _adding_to(clock: _Clock, name: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    setattr(clock, name, getattr(clock, name) + time.perf_counter() - begin)


def _hand_out(text: str, on_text: Callable[[str], None] | None) -> None:
    if text and on_text is not None:
        on_text(text)


def _video_part(frames: Frames) -> VideoPart:
    info = frames.info
    return VideoPart(
        duration_s=info.duration_s,
        width=info.width,
        height=info.height,
        rotation=info.rotation,
        codec=info.codec,
        frames_used=len(frames.times_s),
        frame_times_s=tuple(round(float(time_s), 6) for time_s in frames.times_s),
        decoded_s=frames.decoded_s,
        corrupt_frames=frames.corrupt_frames,
    )


def _sampling(generation: GenerationSettings) -> SamplingSettings | None:
    if generation.temperature == 0:
        return None
    return SamplingSettings(generation.temperature, generation.top_p, generation.seed)


def _speculation_part(
    speculation: SpeculationSettings, request: Request, generation: Generation
) -> SpeculationPart:
    stats = generation.stats
    most = max(stats.histogram, default=-1)
    return SpeculationPart(
        method=speculation.method,
        verify=speculation.verify if speculation.speculates else None,
        num_spec_steps=stats.rounds,
        num_draft_tokens=stats.drafted,
        num_accepted_draft_tokens=stats.accepted,
        mean_acceptance_length=stats.mean_acceptance_length,
        mean_accepted_drafts=stats.mean_accepted_drafts,
        draft_acceptance_rate=stats.draft_acceptance_rate,
        acceptance_histogram=tuple(stats.histogram.get(count, 0) for count in range(most + 1)),
        loosened_tokens=stats.loosened,
        fallback=request.policy.verdict if speculation.tree == "auto" and request.policy else None,
        arm_rounds=dict(stats.arm_rounds) if speculation.arms is not None else None,
    )
