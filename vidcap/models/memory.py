"""How much memory a pair needs for a video, from sizes alone.

An estimate that errs on the safe side: weights in the format they run in, keys and values of every
token, the frames, and an allowance for what else lives during a prefill. Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from vidcap.errors import UsageError
from vidcap.models.facts import ModelFacts
from vidcap.models.machine import Device

#: The process itself with torch and its libraries, CUDA context and workspaces included.
PROCESS_BYTES = 1 << 30

#: Numbers per token and unit of width that are alive in one layer of a prefill: the states, the
#: attention's projections and the MLP's two inner vectors, each several times as wide.
ACTIVATIONS_PER_TOKEN = 20

#: Rows of keys and values beside prompt and answer, for the tree that is being verified.
TREE_ROWS = 64

#: Visual tokens of the video that a pair must have room for to be chosen without being named.
NOMINAL_VISUAL_TOKENS = 16_384

#: Share of a device's memory that a pair can count on; the system has the rest.
USABLE_SHARE = 0.95

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes of one model: its weights, and its keys and values."""

    weights: int
    keys_values: int

    @property
    def total(self) -> int:
        """Both."""
        return self.weights + self.keys_values


@dataclass(frozen=True, slots=True)
class Load:
    """What a request asks of a pair.

    Attributes:
        prompt_tokens: of the target, visual ones included.
        draft_prompt_tokens: of the draft, fewer where it sees a pruned video.
        max_tokens: most tokens of the answer.
        pixels: of all frames together, after resizing.
    """

    prompt_tokens: int
    draft_prompt_tokens: int
    max_tokens: int
    pixels: int = 0


@dataclass(frozen=True, slots=True)
class PairMemory:
    """Bytes of a pair at work.

    Attributes:
        target, draft: of the models; draft None where none is loaded.
        allowance: of everything else.
    """

    target: ModelMemory
    draft: ModelMemory | None
    allowance: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.target.total + (self.draft.total if self.draft else 0) + self.allowance


def dtype_name(dtype: str, device: Device) -> str:
    """The number format that ``--dtype`` means on a device."""
    if dtype == "auto":
        return "bfloat16" if device.bf16 else "float32"
    if dtype not in _BYTES:
        raise UsageError(f"unknown number format '{dtype}'", hint=", ".join(_BYTES))
    return dtype


def pair_memory(
    target: ModelFacts, draft: ModelFacts | None, load: Load, dtype: str, *, shares: bool = False
) -> PairMemory:
    """What a pair needs for a request.

    Args:
        target, draft: the models; draft None where nothing but the target is loaded.
        load: the request.
        dtype: number format, not ``auto``.
        shares: whether the target drafts for itself: no second weights, but keys and values of the
            video that it sees as a draft.
    """
    size = _BYTES[dtype]
    target_memory = _model_memory(target, load.prompt_tokens + load.max_tokens, size)
    drafting = target if shares else draft
    draft_memory = None
    if drafting is not None:
        rows = load.draft_prompt_tokens + load.max_tokens
        full = _model_memory(drafting, rows, size)
        draft_memory = ModelMemory(0 if shares else full.weights, full.keys_values)
    activations = load.prompt_tokens * target.hidden * ACTIVATIONS_PER_TOKEN * size
    # A frame is there as bytes and, cut into patches, as float32.
    frames = load.pixels * 3 * (1 + 4)
    return PairMemory(target_memory, draft_memory, PROCESS_BYTES + activations + frames)


def nominal_need(target: ModelFacts, draft: ModelFacts | None, dtype: str) -> int:
    """Bytes for a video of ordinary length: what decides whether a pair fits a machine."""
    load = Load(NOMINAL_VISUAL_TOKENS, NOMINAL_VISUAL_TOKENS, max_tokens=256)
    return pair_memory(target, draft, load, dtype).total


def fits(need: int, device: Device) -> bool:
    """Whether a device has that much memory to spare; yes where nobody knows."""
    return device.memory_bytes is None or need <= USABLE_SHARE * device.memory_bytes


def _model_memory(facts: ModelFacts, rows: int, size: int) -> ModelMemory:
    per_row = 2 * facts.layers * facts.kv_heads * facts.head_dim * size
    return ModelMemory(facts.parameters * size, (rows + TREE_ROWS) * per_row)
