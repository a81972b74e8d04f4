"""How much memory a pair needs for a video, from sizes alone.

Weights, keys and values stay for the whole run. What comes and goes beside them is followed through
the run's phases (loading, preprocessing, each model's vision tower and prefill): the most that any
of them holds at once decides. The tensors that are counted are those that released models of
transformers keep alive at the widest point of a layer. A test holds the result against the resident
size of runs on a CPU. Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from vidcap.errors import UsageError
from vidcap.models.facts import ModelFacts
from vidcap.models.machine import Device
from vidcap.settings import ModelSettings, QuantizeName

#: The process itself with torch and its libraries, CUDA context and workspaces included.
PROCESS_BYTES = 1 << 30

#: Rows of keys and values beside prompt and answer, for the tree that is being verified.
TREE_ROWS = 64

#: Visual tokens of the video that a pair must have room for to be chosen without being named.
NOMINAL_VISUAL_TOKENS = 16_384

#: Share of a device's memory that a pair can count on; the system has the rest.
USABLE_SHARE = 0.95

#: Most bytes of weights of one model that are kept a second time, packed.
LARGEST_PACKED_BYTES = 2 * 2**30

#: Copies of all frames in float32 while they are scaled and cut into patches; one of them stays.
_FLOAT_FRAMES = 3

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_FLOAT = 4

#: Bytes of a packed weight with its share of the scales: one for a row, or one for 32 weights.
_QUANTIZED_BYTES = {"int8": 1.0, "int4": 0.5 + 2 / 32}


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes of one model that stay for the whole run.

    Attributes:
        weights: in the format they run in.
        copies: of weights in the order that the CPU's kernels want; see
            :mod:`vidcap.models.packed`.
        keys_values: of prompt, answer and the tree that is being verified.
    """

    weights: int
    copies: int
    keys_values: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.copies + self.keys_values


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
class Form:
    """How a pair runs.

    Attributes:
        dtype: number format of activations, not ``auto``.
        on_cpu: whether it runs on a CPU, which holds the frames and packed copies as well.
        quantize, draft_quantize: whether the weights of the text layers are quantized.
    """

    dtype: str
    on_cpu: bool = False
    quantize: QuantizeName = "none"
    draft_quantize: QuantizeName = "none"

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return _BYTES[self.dtype]

    def of_draft(self, device: Device) -> Form:
        """The draft's form where it runs alone on a device of its own."""
        return Form(self.dtype, device.name == "cpu", self.draft_quantize)


@dataclass(frozen=True, slots=True)
class PairMemory:
    """Bytes of a pair at work, at the fullest moment.

    Attributes:
        target, draft: of the models; draft None where none is loaded.
        working: of frames and activations, as far as they do not fit where keys and values go
            later on.
        process: of everything that does not depend on the pair.
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
    if dtype not in _BYTES:
        raise UsageError(f"unknown number format '{dtype}'", hint=", ".join(_BYTES))
    return dtype


def form_of(settings: ModelSettings, device: Device) -> Form:
    """How a pair runs; both models run in the number format of the target's device."""
    dtype = dtype_name(settings.dtype, device)
    return Form(dtype, device.name == "cpu", settings.quantize, settings.draft_quantize)


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
    first = _Work(target, load.prompt_tokens, load, form, form.quantize)
    works = [first]
    if draft is not None and not shares:
        works.append(_Work(draft, load.draft_prompt_tokens, load, form, form.draft_quantize))
    parts = [work.kept for work in works]
    if shares:
        again = _Work(target, load.draft_prompt_tokens, load, form, form.quantize)
        parts.append(ModelMemory(0, 0, again.kept.keys_values))
    kept = sum(part.total for part in parts)
    working = max(0, _peak(works, load, form) - kept)
    return PairMemory(parts[0], parts[1] if len(parts) > 1 else None, working)


def nominal_need(target: ModelFacts, draft: ModelFacts | None, form: Form) -> int:
    """Bytes for a video of ordinary length: what decides whether a pair fits a machine."""
    tokens = NOMINAL_VISUAL_TOKENS
    pixels = tokens * target.geometry.token_pixels
    return pair_memory(target, draft, Load(tokens, tokens, 256, pixels), form).total


def fits(need: int, device: Device) -> bool:
    """Whether a device has that much memory to spare; yes where nobody knows."""
    return device.memory_bytes is None or need <= USABLE_SHARE * device.memory_bytes


@dataclass(frozen=True, slots=True)
class _Work:
    """One model and its share of a request."""

    facts: ModelFacts
    tokens: int
    load: Load
    form: Form
    quantize: QuantizeName

    @property
    def loaded(self) -> int:
        """Bytes of the weights as they are loaded, before they are quantized."""
        return self.facts.parameters * self.form.size

    @property
    def kept(self) -> ModelMemory:
        """What stays for the whole run."""
        facts, size = self.facts, self.form.size
        rows = self.tokens + self.load.max_tokens + TREE_ROWS
        keys_values = rows * 2 * facts.layers * facts.kv_heads * facts.head_dim * size
        return ModelMemory(self._weights(), self._copies(), keys_values)

    @property
    def prompt_keys_values(self) -> int:
        """Bytes of keys and values when the prefill ends."""
        facts = self.facts
        return self.tokens * 2 * facts.layers * facts.kv_heads * facts.head_dim * self.form.size

    @property
    def vision(self) -> int:
        """Bytes beside the pixels in the widest place of a layer of the vision tower.

        Attention: states, their norm, queries, keys and values, and, where these are rotated (in
        float32 whatever the format is), what that takes. MLP: states, their norm, inner vectors.
        The states are there twice, before the layer and within.
        """
        tower, size = self.facts.tower, self.form.size
        patches = self.load.pixels / self.facts.geometry.patch_pixels
        rotating = (4 if size == _FLOAT else 6) * _FLOAT if tower.rotates else 2 * size
        attention = tower.width * (6 * size + rotating)
        mlp = (3 * tower.width + tower.inner_vectors * tower.inner) * size
        return round(patches * max(attention, mlp))

    @property
    def embeddings(self) -> int:
        """Bytes of the prompt's embeddings, and of features for later layers beside them."""
        each = self.tokens * self.facts.hidden * self.form.size
        return each * (1 + self.facts.tower.deep_layers)

    @property
    def prefill(self) -> int:
        """Bytes beside keys and values in the widest place of a layer of the text model.

        Attention: queries, three more while they are rotated, keys and values. MLP: three inner
        vectors (gate, way up and their product). Both: states and their norm.
        """
        facts = self.facts
        heads = (4 * facts.heads + 2 * facts.kv_heads) * facts.head_dim
        widest = 2 * facts.hidden + max(heads, 3 * facts.inner)
        return self.embeddings + self.tokens * widest * self.form.size

    def _weights(self) -> int:
        if self.quantize == "none":
            return self.loaded
        layers = self.facts.layer_parameters
        rest = (self.facts.parameters - layers) * self.form.size
        return rest + round(layers * _QUANTIZED_BYTES[self.quantize])

    def _copies(self) -> int:
        size = self.form.size
        if not self.form.on_cpu or self.quantize != "none" or self.form.dtype == "float16":
            return 0
        parts = (self.facts.layer_parameters * size, self.facts.head_parameters * size)
        return sum(part for part in parts if part <= LARGEST_PACKED_BYTES)


def _peak(works: list[_Work], load: Load, form: Form) -> int:
    """Bytes at the fullest moment, without the process."""
    weights = [work.kept.weights + work.kept.copies for work in works]
    caches = [work.prompt_keys_values for work in works]
    moments = [sum(weights[:index]) + work.loaded for index, work in enumerate(works)]
    # On other devices than the CPU, the frames lie elsewhere until they are patches.
    frames = load.pixels * 3 if form.on_cpu else 0
    pixels = load.pixels * 3 * _FLOAT
    always = sum(weights) + frames
    if form.on_cpu:
        moments.append(always + _FLOAT_FRAMES * pixels)
    for index, work in enumerate(works):
        before = always + pixels + sum(caches[:index])
        moments += [before + work.vision, before + caches[index] + work.prefill]
    return max(moments)
