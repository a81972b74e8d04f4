"""What a run would decode and need, without weights: frames, tokens, memory. Imports no torch."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

from vidcap.models.facts import ModelFacts
from vidcap.models.machine import Device, find_devices, joined
from vidcap.models.memory import NOMINAL_VISUAL_TOKENS, PairMemory, form_of, pair_memory
from vidcap.models.pair import (
    BUILTIN,
    PairPreset,
    choose_pair,
    largest_pair,
    model_facts,
    models_of,
)
from vidcap.models.parallel import check_divisible, check_parallel, devices_of
from vidcap.models.placement import Placement, has_room, place
from vidcap.models.work import Load, ModelMemory
from vidcap.settings import ModelSettings, SpeculationSettings, VideoSettings
from vidcap.video import SamplingPlan, VideoInfo, appearance_warnings, plan_windows, probe

#: Tokens of the chat template around video and words, rounded up.
_TEMPLATE_TOKENS = 32

#: Bytes of text per token, rounded down: English has about four.
_BYTES_PER_TOKEN = 3


@dataclass(frozen=True, slots=True)
class VideoPlan:
    """What one video comes to.

    Attributes:
        info: the file.
        windows: moments to sample in each window of time, one after the other; the frames nearest
            to them are decoded. One window unless ``every_s`` asks for more.
        width, height: of the frames as the model gets them, in pixels. These and what follows
            belong to the window with the most frames.
        visual_tokens, draft_visual_tokens: of target and draft.
        prompt_tokens: visual ones and about as many more as template and prompt have.
        memory: of the pair at work.
        fits: whether every device has that much.
        warnings: what the user should know.
    """

    info: VideoInfo
    windows: tuple[tuple[float, ...], ...]
    width: int
    height: int
    visual_tokens: int
    draft_visual_tokens: int
    prompt_tokens: int
    memory: PairMemory
    fits: bool
    warnings: tuple[str, ...]


class Planner:
    """Plans runs of one pair with one set of settings.

    Attributes:
        pair: the pair that is planned for.
        notice: what the user should know about the choice of it, None for nothing.
        target, draft: names of its models, draft None where none is used.
        device, draft_device: where they would run; several devices of a target count as one.
        dtype: number format they would run in.
    """

    def __init__(
        self,
        model: ModelSettings,
        video: VideoSettings,
        speculation: SpeculationSettings,
        *,
        prompt: str,
        max_tokens: int,
    ):
        """Finds the sizes of the models; the pair need not be here.

        Raises:
            ModelError: nothing is known of a model, or there is no such device.
            UsageError: the settings contradict each other.
        """
        self._video = video
        self._speculation = speculation
        self._max_tokens = max_tokens
        self._words = _TEMPLATE_TOKENS + math.ceil(len(prompt.encode()) / _BYTES_PER_TOKEN)
        self.pair, self.notice = _planned_pair(model, needs_draft=speculation.needs_draft)
        target, draft = models_of(self.pair, model, needs_draft=speculation.needs_draft)
        self.target = target.removeprefix(BUILTIN)
        self.draft = draft.removeprefix(BUILTIN) if draft else None
        self._model = model
        check_parallel(model)
        self._devices = devices_of(model, find_devices)
        self._own = find_devices(model.draft_device)[0] if model.draft_device else None
        self._form = form_of(model, self._devices[0])
        self.dtype = self._form.dtype
        self._target = model_facts(target, model.revision)
        self._draft = model_facts(draft, model.revision) if draft else None
        check_divisible(self._target, model.tensor_parallel, self.target)
        self.device = self._place_as_one()
        self.draft_device = self._own or self._devices[0]

    def plan(self, path: str | os.PathLike[str]) -> VideoPlan:
        """What a video comes to; reads its header and its first frame only.

        Raises:
            InputError: the file cannot be used.
        """
        info = probe(path)
        samplings = plan_windows(self._video, info.duration_s)
        windows = tuple(window_times(sampling, info.average_fps) for sampling in samplings)
        count = max(len(times) for times in windows)
        geometry = self._target.geometry
        height, width = geometry.frame_size(count, info.height, info.width, self._video.max_pixels)
        visual = geometry.visual_tokens(count, height, width)
        seen = kept_tokens(visual, self._speculation.prune)
        prompt = visual + self._words
        pixels = geometry.pad_frames(count) * height * width
        chunk = self._speculation.prefill_chunk
        load = Load(prompt, seen + self._words, self._max_tokens, pixels, chunk)
        memory = pair_memory(
            self._target,
            self._draft,
            load,
            self._form,
            shares=self._speculation.draft == "self",
        )
        return VideoPlan(
            info,
            windows,
            width,
            height,
            visual,
            seen if self._speculation.speculates else visual,
            prompt,
            memory,
            has_room(self._model, self._target, self._draft, self._devices, self._own, load),
            (
                *samplings[0].warnings,
                *_notes(info),
                *self._context_warnings(prompt),
                *self._spill_warnings(load),
            ),
        )

    def _place_as_one(self) -> Device:
        """Where the target would go, several devices as one."""
        if self._model.tensor_parallel > 1:
            return joined(self._devices)
        placement = self._place(None)
        names = placement.devices if placement else [self._devices[0].name]
        return joined([device for device in self._devices if device.name in names])

    def _place(self, load: Load | None) -> Placement | None:
        """Where the target would go; None for no room, or where there is nothing to decide."""
        if len(self._devices) == 1 or self._model.tensor_parallel > 1:
            return None
        return place(
            self._model,
            self._target,
            self._draft,
            self._devices,
            draft_device=self._own,
            load=load,
        )

    def _spill_warnings(self, load: Load) -> list[str]:
        placement = self._place(load)
        return [] if placement is None else list(placement.warnings)

    def _context_warnings(self, prompt: int) -> list[str]:
        limits = [facts.context for facts in self._models() if facts.context is not None]
        limit = min(limits, default=prompt + self._max_tokens)
        if prompt + self._max_tokens <= limit:
            return []
        return [
            f"about {prompt} prompt tokens and {self._max_tokens} for the answer are more than "
            f"the {limit} that the model holds"
        ]

    def _models(self) -> list[ModelFacts]:
        return [self._target, *([self._draft] if self._draft else [])]


def _notes(info: VideoInfo) -> tuple[str, ...]:
    """What decoding will change about the pictures."""
    if not info.interlaced:
        return appearance_warnings(info)
    return (*appearance_warnings(info), "interlaced video: its frames will be deinterlaced")


def window_times(sampling: SamplingPlan, rate: float | None) -> tuple[float, ...]:
    """The moments that would be sampled, in seconds.

    Where the video has fewer frames than were asked for, each of them once.

    Args:
        sampling: what was asked for.
        rate: average frames per second of the video, None where it does not say.
    """
    targets = tuple(float(target) for target in sampling.targets)
    if not rate:
        return targets
    start = float(sampling.start)
    present = max(1, math.ceil((float(sampling.end) - start) * rate - 1e-6))
    if present >= len(targets):
        return targets
    return tuple(start + index / rate for index in range(present))


def kept_tokens(count: int, drop: float) -> int:
    """Visual tokens that the draft sees when the share `drop` of `count` is dropped."""
    return min(count, math.floor(count * (1 - drop) + 1e-9))


def plan_data(plan: VideoPlan) -> dict[str, Any]:
    """A plan as JSON types."""
    info = plan.info
    return {
        "path": info.path,
        "status": "ok",
        "video": _video_data(info),
        "frames": {
            "count": sum(len(times) for times in plan.windows),
            "windows": len(plan.windows),
            "times_s": [time for times in plan.windows for time in times],
            "width": plan.width,
            "height": plan.height,
        },
        "tokens": {
            "prompt": plan.prompt_tokens,
            "visual": plan.visual_tokens,
            "draft_visual": plan.draft_visual_tokens if plan.memory.draft else None,
        },
        "memory": _memory_data(plan),
        "warnings": list(plan.warnings),
        "error": None,
    }


def planner_data(planner: Planner) -> dict[str, Any]:
    """What a planner plans for, as JSON types."""
    return {
        "pair": planner.pair.name,
        "target": planner.target,
        "draft": planner.draft,
        "dtype": planner.dtype,
        "device": device_data(planner.device),
        "draft_device": device_data(planner.draft_device) if planner.draft else None,
    }


def device_data(device: Device) -> dict[str, Any]:
    """A device as JSON types."""
    return {"name": device.name, "label": device.label, "memory_bytes": device.memory_bytes}


def _video_data(info: VideoInfo) -> dict[str, Any]:
    return {
        "duration_s": info.duration_s,
        "width": info.width,
        "height": info.height,
        "rotation": info.rotation,
        "codec": info.codec,
        "average_fps": info.average_fps,
        "interlaced": info.interlaced,
        "hdr": info.hdr,
    }


def _memory_data(plan: VideoPlan) -> dict[str, Any]:
    memory = plan.memory
    return {
        "target": _model_data(memory.target),
        "draft": _model_data(memory.draft) if memory.draft else None,
        "working_bytes": memory.working,
        "process_bytes": memory.process,
        "total_bytes": memory.total,
        "fits": plan.fits,
    }


def _model_data(model: ModelMemory) -> dict[str, int]:
    return {
        "weights_bytes": model.weights,
        "copies_bytes": model.copies,
        "kv_bytes": model.keys_values,
    }


def _planned_pair(model: ModelSettings, *, needs_draft: bool) -> tuple[PairPreset, str | None]:
    """The pair that was named, else the largest preset that fits, else the smallest.

    With it goes what the user should know about the choice, None for nothing.
    """
    named = choose_pair(model)
    if named is not None:
        return named, None
    pair, fitting = largest_pair(model, needs_draft=needs_draft)
    words = (
        f"no preset fits this machine with a video of {NOMINAL_VISUAL_TOKENS:,} visual tokens, "
        f"not even {pair.name}, which this plan is for"
    )
    return pair, None if fitting else words
