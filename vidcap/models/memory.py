"""How much memory a pair needs for a video, from sizes alone.

Weights, keys and values stay for the whole run. What comes and goes beside them is followed through
the run's phases (loading, preprocessing, each model's vision tower and prefill): the most that any
of them holds at once decides. The tensors that are counted are those that released models of
transformers keep alive at the widest point of a layer. A test holds the result against the resident
size of runs on a CPU. Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vidcap.errors import UsageError
from vidcap.models.facts import ModelFacts
from vidcap.models.machine import Device
from vidcap.models.work import BYTES, FLOAT, Form, Load, ModelMemory, Work
from vidcap.settings import ModelSettings

#: The process itself with torch and its libraries, CUDA context and workspaces included.
PROCESS_BYTES = 1 << 30

#: Visual tokens of the video that a pair must have room for to be chosen without being named.
NOMINAL_VISUAL_TOKENS = 16_384

#: Share of a device's memory that a pair can count on; the system has the rest.
USABLE_SHARE = 0.95

#: Copies of all frames in float32 while they are scaled and cut into patches; one of them stays.
_FLOAT_FRAMES = 3


@dataclass(frozen=True, slots=True)
class PairMemory:
    """Bytes of a pair at work, at the fullest moment.

    Attributes:
        target, draft: of the models; draft None where none is loaded.
        working: of frames and activations, as far as they do not fit where keys and values go
            later on; those of all ranks, where several share the target.
        process: of everything that does not depend on the pair, in as many processes.
    """

    target: ModelMemory
    draft: ModelMemory | None
    working: int
    process: int = PROCESS_BYTES

    @property
    def total(self) -> int:
        """All of it."""
        draft = self.draft.total if self.draft else 0
        return self.target.total + draft + self.working + self.process


def dtype_name(dtype: str, device: Device) -> str:
    """The number format that ``--dtype`` means on a device."""
    if dtype == "auto":
        return "bfloat16" if device.bf16 else "float32"
    if dtype not in BYTES:
        raise UsageError(f"unknown number format '{dtype}'", hint=", ".join(BYTES))
    return dtype


def form_of(settings: ModelSettings, device: Device) -> Form:
    """How a pair runs; both models run in the number format of the target's device."""
    dtype = dtype_name(settings.dtype, device)
    packing = settings.quantize, settings.draft_quantize
    return Form(dtype, device.name == "cpu", *packing, ranks=settings.tensor_parallel)


def pair_memory(
    target: ModelFacts, draft: ModelFacts | None, load: Load, form: Form, *, shares: bool = False
) -> PairMemory:
    """What a pair needs for a request.

    Args:
        target, draft: the models; draft None where nothing but the target is loaded.
        load: the request.
        form: how they run.
        shares: whether the target drafts for itself: no second weights, but keys and values of the
            video that it sees as a draft.
    """
    first = Work(target, load.prompt_tokens, load, form, form.quantize)
    works = [first]
    if draft is not None and not shares:
        alone = replace(form, ranks=1)
        works.append(Work(draft, load.draft_prompt_tokens, load, alone, form.draft_quantize))
    parts = [work.kept for work in works]
    if shares:
        again = Work(target, load.draft_prompt_tokens, load, form, form.quantize)
        parts.append(ModelMemory(0, 0, again.kept.keys_values))
    kept = sum(part.total for part in parts)
    working = max(0, _peak(works, load, form) - kept) + (form.ranks - 1) * first.of_other_ranks
    draft_part = parts[1] if len(parts) > 1 else None
    return PairMemory(parts[0], draft_part, working, PROCESS_BYTES * form.ranks)


def nominal_load(target: ModelFacts) -> Load:
    """A request about a video of ordinary length."""
    tokens = NOMINAL_VISUAL_TOKENS
    return Load(tokens, tokens, 256, tokens * target.geometry.token_pixels)


def nominal_need(target: ModelFacts, draft: ModelFacts | None, form: Form) -> int:
    """Bytes for a video of ordinary length: what decides whether a pair fits a machine."""
    return pair_memory(target, draft, nominal_load(target), form).total


def fits(need: int, device: Device) -> bool:
    """Whether a device has that much memory to spare; yes where nobody knows."""
    return device.memory_bytes is None or need <= USABLE_SHARE * device.memory_bytes


def _peak(works: list[Work], load: Load, form: Form) -> int:
    """Bytes at the fullest moment, without the process."""
    weights = [work.kept.weights + work.kept.copies for work in works]
    caches = [work.prompt_keys_values for work in works]
    moments = [sum(weights[:index]) + work.loaded for index, work in enumerate(works)]
    # On other devices than the CPU, the frames lie elsewhere until they are patches.
    frames = load.pixels * 3 if form.on_cpu else 0
    pixels = load.pixels * 3 * FLOAT
    always = sum(weights) + frames
    if form.on_cpu:
        moments.append(always + _FLOAT_FRAMES * pixels)
    for index, work in enumerate(works):
        before = always + pixels + sum(caches[:index])
        moments += [before + work.vision, before + caches[index] + work.prefill]
    return max(moments)
