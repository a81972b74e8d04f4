"""A checkpoint folder without its weights: configuration, tokenizer, chat template, and checks.

Reading one takes a moment, loading its weights may take minutes: whatever can be known to be wrong
with a model, or with two models as a pair, is found here first.
"""

from __future__ import annotations

from dataclasses import dataclass
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any

from vidcap.errors import ModelError
from vidcap.models.geometry import FAMILIES, Family, check_family, read_geometry
from vidcap.models.geometry.base import Geometry
from vidcap.models.geometry.files import read_model_config
from vidcap.models.protocol import TokenRules
from vidcap.models.scales import check_scales
from vidcap.models.stored import check_stored, stored_quantization
from vidcap.models.unpacked import ask_to_unpack
from vidcap.models.weights import check_layers, stored_tensors


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a folder in the hub's layout says about its model.

    Attributes:
        folder: where it lies.
        family: what it belongs to.
        config: as ``AutoConfig`` reads it.
        generation: its ``generation_config.json``, or what its configuration says about generation.
        processor: as ``AutoProcessor`` loads it.
        geometry: frame sizes and token counts.
    """

    folder: Path
    family: Family
    config: Any
    generation: Any
    processor: Any
    geometry: Geometry

    @property
    def tokenizer(self) -> Any:
        """The processor's fast tokenizer."""
        return self.processor.tokenizer

    @property
    def rules(self) -> TokenRules:
        """What it says about its tokens."""
        text = self.config.get_text_config()
        stop = self.generation.eos_token_id
        if stop is None:
            stop = self.tokenizer.eos_token_id
        placeholders = {self.config.video_token_id, self.config.image_token_id}
        return TokenRules(
            vocab_size=min(len(self.tokenizer), text.vocab_size),
            stop_ids=frozenset(stop if isinstance(stop, (list, tuple)) else [stop]),
            placeholder_ids=tuple(sorted(placeholders)),
            repetition_penalty=float(self.generation.repetition_penalty or 1.0),
            max_positions=text.max_position_embeddings,
        )

    @property
    def quantization(self) -> str | None:
        """How its weights are quantized, None for not at all."""
        return stored_quantization(self.config.to_dict())

    def neutral_generation(self) -> Any:
        """A ``GenerationConfig`` with the settings that vidcap honours and nothing else.

        Stop tokens and the repetition penalty of the checkpoint count; its sampling settings give
        way to the user's. Whatever else could change the text is left out, so that ``generate`` of
        transformers and every method of vidcap decode by the same rules.
        """
        from transformers import GenerationConfig

        rules = self.rules
        return GenerationConfig(
            eos_token_id=sorted(rules.stop_ids),
            pad_token_id=self.generation.pad_token_id,
            bos_token_id=self.generation.bos_token_id,
            repetition_penalty=rules.repetition_penalty,
            do_sample=False,
        )

    def render(self, prompt: str) -> str:
        """The prompt for one video and `prompt`, as the chat template writes it.

        Raises:
            ModelError: the template has no place for a video.
        """
        content = [{"type": "video"}, {"type": "text", "text": prompt}]
        try:
            text: str = self.processor.apply_chat_template(
                [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
            )
        except Exception as error:
            # The template is a program of the checkpoint's, run in a sandbox.
            raise ModelError(
                f"the chat template in {self.folder} fails: {first_line(error)}"
            ) from error
        if text.count(self.processor.video_token) != 1:
            raise ModelError(f"the chat template in {self.folder} has no place for one video")
        return text


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read and check everything but the weights.

    Raises:
        ModelError: the folder holds no model of a supported family, or its files contradict each
            other.
    """
    # torchao, where it is installed, is imported on the way and has news for torch's developers.
    getLogger("torch.utils._pytree").setLevel(ERROR)
    from transformers import AutoConfig, AutoProcessor
    from transformers.utils import logging

    logging.set_verbosity_error()
    declared = read_model_config(folder)
    family = check_family(declared, str(folder))
    geometry = read_geometry(folder)
    check_layers(folder, declared)
    check_stored(declared, str(folder))
    check_scales(declared, stored_tensors(folder), str(folder))
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        ask_to_unpack(config)
        processor = AutoProcessor.from_pretrained(folder, trust_remote_code=False)
        generation = _generation(folder, config)
    except Exception as error:
        # Whatever a broken or hostile file makes transformers raise is one line to the user.
        raise ModelError(f"{folder} cannot be loaded: {first_line(error)}") from error
    checkpoint = Checkpoint(folder, family, config, generation, processor, geometry)
    _check_layers(checkpoint)
    _check_tokens(checkpoint)
    return checkpoint


def _generation(folder: Path, config: Any) -> Any:
    from transformers import GenerationConfig

    if (folder / "generation_config.json").is_file():
        return GenerationConfig.from_pretrained(folder)
    return GenerationConfig.from_model_config(config)


def _check_layers(checkpoint: Checkpoint) -> None:
    layers = getattr(checkpoint.config.get_text_config(), "layer_types", None) or ()
    if "sliding_attention" in layers:
        raise ModelError(
            f"{checkpoint.folder} uses sliding-window attention, which is not supported",
            hint="supported are layers that see the whole prompt, in "
            + ", ".join(family.label for family in FAMILIES.values()),
        )


def _check_tokens(checkpoint: Checkpoint) -> None:
    """Make sure that tokenizer, processor, configuration and template mean the same tokens."""
    where, tokenizer, config = checkpoint.folder, checkpoint.tokenizer, checkpoint.config
    rows = config.get_text_config().vocab_size
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(f"{where} has no fast tokenizer (tokenizer.json)")
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if not 0 <= largest < rows:
        raise ModelError(f"{where} has {rows} embeddings, its tokenizer ids up to {largest}")
    marks = checkpoint.geometry.placeholders
    for token, wanted in (
        (marks.video_token, config.video_token_id),
        (marks.image_token, config.image_token_id),
    ):
        found = tokenizer.convert_tokens_to_ids(token)
        if found != wanted:
            raise ModelError(f"{where} names {wanted} as the id of {token}, its tokenizer {found}")
    wrong = [token for token in checkpoint.rules.stop_ids if not _is_id(token, rows)]
    if wrong:
        raise ModelError(f"{where} names {wrong[0]} as a stop token, which is no id of its tokens")
    checkpoint.render("")


def _is_id(token: object, rows: int) -> bool:
    return isinstance(token, int) and 0 <= token < rows


def first_line(error: BaseException) -> str:
    """The first line of what an exception says, or its class."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
