"""Running one arm on one clip: a method of vidcap, or transformers' own ``generate``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, cast

import torch

from vidcap.bench.arms import ASSISTED, LOOKUP, LOOKUP_TOKENS
from vidcap.bench.baseline import (
    Assistance,
    BaselineRun,
    ReleasedModel,
    full_prompt,
    transformers_generate,
)
from vidcap.bench.datasets import Clip
from vidcap.bench.facts import fact_counts, is_right, rejections_on_facts
from vidcap.bench.machine import PeakMemory
from vidcap.bench.results import ArmRun
from vidcap.bench.watch import Watch
from vidcap.captioner import Captioner
from vidcap.decoding import answer_limits, logits_settings, sampling_settings
from vidcap.demo.answers import score_answer
from vidcap.demo.questions import Question
from vidcap.engine.loop import Limits
from vidcap.errors import UsageError
from vidcap.models.loading import LoadedPair
from vidcap.output.record import Record, SpeculationPart, TimingPart, TokenCounts
from vidcap.preprocess import model_fps
from vidcap.shortage import explained_memory
from vidcap.video import Frames


@dataclass(frozen=True, slots=True)
class Footage:
    """A decoded clip: decoded once, and counted for every arm."""

    frames: Frames
    decode_s: float


class ArmRunner(Protocol):
    """Runs one arm."""

    def run(self, clip: Clip, footage: Footage, key: str, rounds: int | None = None) -> ArmRun:
        """One answer, of at most `rounds` target calls where that is given.

        Raises:
            InputError: the clip is too long for the model or its memory.
            UsageError: the prompt cannot be used.
        """
        ...


class MethodRunner:
    """Runs a method of vidcap, with a prefill of its own for every clip."""

    def __init__(self, captioner: Captioner, name: str):
        """Args:
        captioner: with the method.
        name: of the arm.
        """
        self._captioner = captioner
        self._name = name

    def run(self, clip: Clip, footage: Footage, key: str, rounds: int | None = None) -> ArmRun:
        """See :class:`ArmRunner`."""
        pair, watch, generation = self._captioner.load(), Watch(), self._captioner.generation
        memory = PeakMemory(pair.device)
        begin = time.perf_counter() - footage.decode_s
        with self._captioner.open_frames(
            str(clip.path), footage.frames, decode_s=footage.decode_s, begin=begin
        ) as session:
            record = session.answer(clip.prompt, watch=watch, should_stop=_after(rounds))
            peak = memory.read()
            margins = None
            if not self._captioner.speculation.speculates and generation.temperature == 0:
                margins = tuple(session.margins(clip.prompt, watch.tokens))
        return ArmRun(
            **_answer(key, clip, self._name, watch.tokens, pair),
            **_figures(record),
            **_rejected(clip, watch, pair),
            draft_calls=watch.draft_calls,
            finish_reason=record.finish_reason or "",
            peak_memory_bytes=peak,
            margins=margins,
        )


class TransformersRunner:
    """Runs ``generate`` of transformers on the target, with what it can draft with itself."""

    def __init__(self, captioner: Captioner, name: str):
        """Args:
            captioner: whose pair and settings are used; its method does not matter.
            name: of the arm, which says what it drafts with.

        Raises:
            UsageError: transformers cannot draft with this pair.
        """
        self._captioner = captioner
        self._name = name
        self._assistance = Assistance(
            draft=_assistant(captioner.load()) if name == ASSISTED else None,
            lookup_tokens=LOOKUP_TOKENS if name == LOOKUP else None,
        )

    def run(self, clip: Clip, footage: Footage, key: str, rounds: int | None = None) -> ArmRun:
        """See :class:`ArmRunner`."""
        pair = self._captioner.load()
        target = cast(ReleasedModel, pair.target)
        begin = time.perf_counter()
        with explained_memory():
            fps = model_fps(footage.frames, self._captioner.video.fps)
            inputs = target.prepare(footage.frames.rgb, fps, float(footage.frames.times_s[0]))
            before_s = footage.decode_s + time.perf_counter() - begin
            generate = partial(transformers_generate, target, inputs, *self._prompt(inputs, clip))
            generation = self._captioner.generation
            limits = _shortened(answer_limits(generation, target.rules), rounds)
            logits = logits_settings(generation, target.rules)
            memory = PeakMemory(pair.device)
            result = generate(limits, logits, sampling_settings(generation), self._assistance)
        stopped = result.tokens[-1] in limits.stop_ids
        seen = inputs.visual_tokens if result.draft_saw_video else 0
        return ArmRun(
            **_answer(key, clip, self._name, result.tokens, pair),
            **_baseline_figures(result, before_s),
            visual_tokens=inputs.visual_tokens,
            draft_visual_tokens=None if self._assistance.draft is None else seen,
            finish_reason="stop" if stopped else "length",
            peak_memory_bytes=memory.read(),
        )

    @torch.inference_mode()
    def _prompt(self, inputs: Any, clip: Clip) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and the engine's position ids. Not timed: ``generate`` has a vision tower to run."""
        target = self._captioner.load().target
        prefix = target.encode(inputs, self._captioner.model.positions)
        return full_prompt(prefix, target.suffix_ids(clip.prompt))


def _assistant(pair: LoadedPair) -> ReleasedModel:
    """The pair's draft, where transformers takes it as an ``assistant_model``."""
    if pair.draft is None:
        raise UsageError(f"arm '{ASSISTED}' drafts, but no draft model was given")
    target, draft = cast(ReleasedModel, pair.target), cast(ReleasedModel, pair.draft)
    wide, narrow = (model.model.config.get_text_config().vocab_size for model in (target, draft))
    if wide != narrow:
        raise UsageError(
            f"arm '{ASSISTED}': transformers takes no draft whose vocabulary has {narrow} rows "
            f"beside the target's {wide}"
        )
    return draft


def _shortened(limits: Limits, rounds: int | None) -> Limits:
    """Limits that end after `rounds` target calls at most, where that is given."""
    if rounds is None:
        return limits
    return replace(limits, max_tokens=min(limits.max_tokens, rounds + 1))


def _after(rounds: int | None) -> Callable[[], bool] | None:
    """True once it has been asked `rounds` times, None for never."""
    if rounds is None:
        return None
    left = iter(range(rounds))
    return lambda: next(left, None) is None


def _answer(
    key: str, clip: Clip, arm: str, tokens: Sequence[int], pair: LoadedPair
) -> dict[str, Any]:
    """The fields of a run that say what was answered, and how right it is."""
    text = _decode(pair, tokens)
    return {
        "key": key,
        "clip": clip.name,
        "arm": arm,
        "prompt": clip.prompt,
        "text": text,
        "tokens": tuple(tokens),
        "device": pair.device,
        "dtype": pair.dtype,
        "facts": fact_counts(clip.truth or {}, text) if _is_caption(clip) else None,
        "answer_right": _is_right(clip, text),
        "question_kind": clip.question_kind,
    }


def _figures(record: Record) -> dict[str, Any]:
    """The fields of a run that a record has."""
    counts = record.tokens or TokenCounts()
    speculation = record.speculation or SpeculationPart()
    timing = record.timing or TimingPart()
    stages = (timing.vision_s, timing.target_prefill_s, timing.draft_prefill_s)
    return {
        "visual_tokens": counts.visual or 0,
        "draft_visual_tokens": counts.draft_visual,
        "rounds": speculation.num_spec_steps,
        "drafted": speculation.num_draft_tokens,
        "accepted": speculation.num_accepted_draft_tokens,
        "total_s": timing.total_s,
        "ttft_s": timing.ttft_s,
        "prefill_s": sum(seconds or 0.0 for seconds in stages) - (timing.overlap_s or 0.0),
        "decode_s": timing.decode_s,
        "draft_s": timing.draft_s,
        "verify_s": timing.verify_s,
        "other_s": timing.other_s,
    }


def _baseline_figures(result: BaselineRun, before_s: float) -> dict[str, Any]:
    return {
        "first_tokens": result.first_tokens,
        "rounds": result.rounds,
        "drafted": result.drafted,
        "accepted": result.accepted,
        "draft_calls": result.draft_calls,
        "total_s": before_s + result.ttft_s + result.decode_s,
        "ttft_s": before_s + result.ttft_s,
        "prefill_s": result.ttft_s,
        "decode_s": result.decode_s,
    }


def _rejected(clip: Clip, watch: Watch, pair: LoadedPair) -> dict[str, Any]:
    """The fields of a run about the draft's mismatches."""
    rejections = watch.rejections()
    on_facts = None
    if _is_caption(clip):
        on_facts = rejections_on_facts(watch.tokens, rejections, partial(_decode, pair))
    return {"rejections": len(rejections), "rejections_on_facts": on_facts}


def _is_caption(clip: Clip) -> bool:
    """Whether a clip's text is a caption whose facts are known."""
    return clip.truth is not None and clip.answer is None


def _is_right(clip: Clip, text: str) -> bool | None:
    if clip.answer is None:
        return None
    if clip.truth is None or clip.question_kind is None:
        return is_right(clip.answer, text)
    return score_answer(Question(clip.question_kind, clip.prompt, clip.answer), text)


def _decode(pair: LoadedPair, tokens: Sequence[int]) -> str:
    text: str = pair.target.tokenizer.decode(
        list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    return text
