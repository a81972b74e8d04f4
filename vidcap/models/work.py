"""One model's share of the memory that a run takes, from sizes alone. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from vidcap.engine.sizes import LARGEST_COPIED_BYTES
from vidcap.models.facts import ModelFacts
from vidcap.models.machine import Device
from vidcap.settings import QuantizeName

#: Rows of keys and values beside prompt and answer, for the tree that is being verified.
TREE_ROWS = 64

#: Most bytes of weights of one model that are kept a second time, packed.
LARGEST_PACKED_BYTES = 2 * 2**30

#: Bytes of a number by its format.
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

#: Bytes of a number of pixels and of rotated queries and keys, whatever the format is.
FLOAT = 4

#: Bytes of a packed weight with its share of the scales: one for a row, or one for 32 weights.
_QUANTIZED_BYTES = {"int8": 1.0, "int4": 0.5 + 2 / 32}


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes of one model that stay for the whole run.

    Attributes:
        weights: in the format they run in.
        copies: of weights in the order that the CPU's kernels want; see
            :mod:`vidcap.models.packed`.
        keys_values: of prompt, answer and the tree that is being verified; a small prompt's twice,
            see :class:`vidcap.engine.kv.KVCache`.
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
        chunk: most prompt rows of a call of either model, 0 for all of them.
    """

    prompt_tokens: int
    draft_prompt_tokens: int
    max_tokens: int
    pixels: int = 0
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class Form:
    """How a pair runs.

    Attributes:
        dtype: number format of activations, not ``auto``.
        on_cpu: whether it runs on a CPU, which holds the frames and packed copies as well.
        quantize, draft_quantize: whether the weights of the text layers are quantized.
        ranks: processes that share every layer, see :mod:`vidcap.models.parallel`.
    """

    dtype: str
    on_cpu: bool = False
    quantize: QuantizeName = "none"
    draft_quantize: QuantizeName = "none"
    ranks: int = 1

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return BYTES[self.dtype]

    def of_draft(self, device: Device) -> Form:
        """The draft's form where it runs alone on a device of its own."""
        return Form(self.dtype, device.name == "cpu", self.draft_quantize)


@dataclass(frozen=True, slots=True)
class Work:
    """One model and its share of a request."""

    facts: ModelFacts
    tokens: int
    load: Load
    form: Form
    quantize: QuantizeName

    @property
    def loaded(self) -> int:
        """Bytes of the weights as they are loaded, before they are quantized."""
        if self.facts.stays_packed:
            return self.facts.weight_bytes
        return self.facts.parameters * self.form.size

    @property
    def kept(self) -> ModelMemory:
        """What stays for the whole run."""
        prompt = self.prompt_keys_values
        copied = prompt if self.form.on_cpu and prompt <= LARGEST_COPIED_BYTES else 0
        behind = self._keys_values(self.load.max_tokens + TREE_ROWS)
        return ModelMemory(self._weights(), self._copies(), prompt + copied + behind)

    @property
    def prompt_keys_values(self) -> int:
        """Bytes of keys and values when the prefill ends."""
        return self._keys_values(self.tokens)

    def _keys_values(self, rows: int) -> int:
        facts = self.facts
        return rows * 2 * facts.layers * facts.kv_heads * facts.head_dim * self.form.size

    @property
    def vision(self) -> int:
        """Bytes beside the pixels in the widest place of a layer of the vision tower.

        Attention: states, their norm, queries, keys and values, and, where these are rotated (in
        float32 whatever the format is), what that takes. MLP: states, their norm, inner vectors.
        The states are there twice, before the layer and within.
        """
        tower, size = self.facts.tower, self.form.size
        patches = self.load.pixels / self.facts.geometry.patch_pixels
        rotating = (4 if size == FLOAT else 6) * FLOAT if tower.rotates else 2 * size
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
        vectors (gate, way up and their product). Both: states and their norm. In chunks: those of
        one, with keys and values of their own and a mask. Of several ranks, each has that much.
        """
        facts = self.facts
        heads = (4 * facts.heads + 2 * facts.kv_heads) * facts.head_dim
        widest = 2 * facts.hidden + max(heads, 3 * facts.inner) // self.form.ranks
        rows = min(self.load.chunk or self.tokens, self.tokens)
        if rows < self.tokens:
            widest += 2 * facts.layers * facts.kv_heads * facts.head_dim
            widest += rows * facts.heads // facts.kv_heads
        return self.embeddings + rows * widest * self.form.size

    def _weights(self) -> int:
        if self.quantize == "none":
            return self.loaded
        layers = self.facts.layer_parameters
        rest = (self.facts.parameters - layers) * self.form.size
        return rest + round(layers * _QUANTIZED_BYTES[self.quantize])

    def _copies(self) -> int:
        size = self.form.size
        packed = self.quantize != "none" or self.facts.stays_packed
        if not self.form.on_cpu or packed or self.form.dtype == "float16":
            return 0
        layers, head = self.facts.layer_parameters * size, self.facts.head_parameters * size
        packed_layers = layers if layers <= LARGEST_PACKED_BYTES * self.form.ranks else 0
        return packed_layers + (head if head <= LARGEST_PACKED_BYTES else 0)

    @property
    def of_other_ranks(self) -> int:
        """Bytes of each rank but the first beside its part of the layers, keys and values.

        When it loads, it has what only the first one keeps; later, activations of its own.
        """
        rest = self.loaded - self.facts.layer_parameters * self.form.size
        return max(self.prefill, rest - self.kept.keys_values // self.form.ranks)
