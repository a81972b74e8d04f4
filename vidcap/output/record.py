"""The record: everything vidcap says about one answer, in the shape that JSON output prints.

The names follow the field (and the statistics of serving engines), times are seconds, sizes are
bytes or pixels. Every key is always present; what is not known is null. The JSON Schema beside this
file describes the same shape for readers that are not Python.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import resources
from typing import Any, Literal

from vidcap import __version__

#: Grows when a key changes its meaning or goes away; a new key alone does not change it.
SCHEMA_VERSION = 1

Kind = Literal["describe", "ask"]
Status = Literal["ok", "error", "skipped"]
FinishReason = Literal["stop", "length", "interrupted"]


@dataclass(frozen=True, slots=True)
class Source:
    """The file as it was read.

    Attributes:
        size: bytes.
        mtime_ns: time of the last change, nanoseconds since the epoch.
        fingerprint: hash over size, time and the first and last MiB.
    """

    size: int
    mtime_ns: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Segment:
    """The text of one stretch of the video, in seconds from its first frame."""

    start_s: float
    end_s: float
    text: str


@dataclass(frozen=True, slots=True)
class VideoPart:
    """The video as displayed, and which of its frames the model saw.

    Attributes:
        duration_s: length of the video, None where the file does not tell.
        width, height: pixels after rotation and sample aspect ratio.
        rotation: degrees counter-clockwise that the file asks for.
        codec: name of the video codec.
        frames_used: number of frames the model saw.
        frame_times_s: their times in seconds from the first frame.
        decoded_s: how far into the video decoding got.
        corrupt_frames: frames that could not be decoded and were left out.
    """

    duration_s: float | None = None
    width: int | None = None
    height: int | None = None
    rotation: float = 0.0
    codec: str | None = None
    frames_used: int = 0
    frame_times_s: tuple[float, ...] = ()
    decoded_s: float | None = None
    corrupt_frames: int = 0


@dataclass(frozen=True, slots=True)
class ModelPart:
    """Which models answered, and how they ran.

    Attributes:
        pair: the preset or pair as it was asked for.
        target, draft: hub id or folder of each model; draft None where none was loaded.
        device, dtype: as torch names them.
        attention: name of the attention kernel that ran the target.
        positions: policy for the positions of the text after the video.
        shared_tower: whether the draft's visual features come from the target's run of the vision
            tower; None where no draft was loaded.
        tensor_parallel: processes that share every layer of the target.
    """

    pair: str | None = None
    target: str | None = None
    draft: str | None = None
    device: str | None = None
    dtype: str | None = None
    attention: str | None = None
    positions: str | None = None
    shared_tower: bool | None = None
    tensor_parallel: int = 1


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens in and out.

    Attributes:
        prompt: all tokens of the target's prompt, the visual ones included.
        visual: visual tokens the target saw.
        draft_visual: visual tokens the draft saw, None without a draft.
        generated: new tokens, the stop token included.
    """

    prompt: int | None = None
    visual: int | None = None
    draft_visual: int | None = None
    generated: int = 0


@dataclass(frozen=True, slots=True)
class SpeculationPart:
    """How the speculative method did.

    Attributes:
        method: name of the method.
        verify: who judged the drafted tokens, None where none were drafted.
        num_spec_steps: rounds, that is target calls after the prefill.
        num_draft_tokens: tokens drafted over all rounds (every node of a tree counts).
        num_accepted_draft_tokens: drafted tokens that became text.
        mean_acceptance_length: tokens per target call, the bonus token included.
        mean_accepted_drafts: accepted drafted tokens per round, without the bonus token.
        draft_acceptance_rate: accepted / drafted tokens, 0 to 1.
        acceptance_histogram: entry i counts the rounds that accepted i drafted tokens.
        loosened_tokens: accepted tokens that strict verification would have refused.
        fallback: why another method ran than the one asked for, None where none did.
        arm_rounds: rounds by the draft arm that had the turn, None where there is one draft.
    """

    method: str = "plain"
    verify: str | None = None
    num_spec_steps: int = 0
    num_draft_tokens: int = 0
    num_accepted_draft_tokens: int = 0
    mean_acceptance_length: float | None = None
    mean_accepted_drafts: float | None = None
    draft_acceptance_rate: float | None = None
    acceptance_histogram: tuple[int, ...] = ()
    loosened_tokens: int = 0
    fallback: str | None = None
    arm_rounds: dict[str, int] | None = None


@dataclass(frozen=True, slots=True)
class TimingPart:
    """Seconds per stage; stages that overlap may add to more than the total.

    Attributes:
        load_s: loading the models, once for all inputs of a run.
        ttft_s: from the start of the work on this answer to its first token.
        decode_s: from the first token to the last.
        other_s: what lies in none of the stages.
        tokens_per_s: tokens after the first one over decode_s.
        overlap_s: what the draft's vision and prefill took beside the target's.
    """

    load_s: float | None = None
    decode_video_s: float | None = None
    preprocess_s: float | None = None
    vision_s: float | None = None
    target_prefill_s: float | None = None
    draft_prefill_s: float | None = None
    draft_s: float | None = None
    verify_s: float | None = None
    other_s: float | None = None
    ttft_s: float | None = None
    decode_s: float | None = None
    total_s: float | None = None
    tokens_per_s: float | None = None
    overlap_s: float | None = None


@dataclass(frozen=True, slots=True)
class ErrorPart:
    """Why there is no answer.

    Attributes:
        type: class of the error, for scripts that tell errors apart.
        message: one line, without the path.
        hint: what helps, where one thing does.
    """

    type: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One answer to one prompt about one video, or the reason why there is none.

    Attributes:
        path: as it was given.
        kind: ``describe`` or ``ask``.
        status: ``ok``, ``error`` (see ``error``) or ``skipped``.
        prompt: the words the model was given, without its chat template.
        question: the question of ``ask``.
        text: what the model answered; partial where ``finish_reason`` is ``interrupted``.
        finish_reason: ``stop`` (a stop token), ``length`` (the token limit) or ``interrupted``.
        segments: the text by time windows, where windows were asked for.
        warnings: what went less than well with this input.
        settings_hash: equal for records made with settings that give the same text.
    """

    path: str
    kind: Kind
    status: Status = "ok"
    prompt: str | None = None
    question: str | None = None
    text: str | None = None
    finish_reason: FinishReason | None = None
    segments: tuple[Segment, ...] = ()
    warnings: tuple[str, ...] = ()
    source: Source | None = None
    video: VideoPart | None = None
    model: ModelPart | None = None
    tokens: TokenCounts | None = None
    speculation: SpeculationPart | None = None
    timing: TimingPart | None = None
    settings_hash: str | None = None
    error: ErrorPart | None = None
    schema_version: int = field(default=SCHEMA_VERSION)
    vidcap_version: str = field(default=__version__)

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON types: dicts, lists, strings, numbers and None, in printing order.

        Numbers that JSON does not know (infinity, not a number) become None.
        """
        plain = _plain(self)
        return {key: plain[key] for key in _KEY_ORDER}


_KEY_ORDER = (
    "schema_version",
    "vidcap_version",
    "kind",
    "path",
    "source",
    "status",
    "prompt",
    "question",
    "text",
    "finish_reason",
    "segments",
    "warnings",
    "video",
    "model",
    "tokens",
    "speculation",
    "timing",
    "settings_hash",
    "error",
)


def record_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every printed record satisfies."""
    text = resources.files("vidcap.output").joinpath("record.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
