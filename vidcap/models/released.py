"""Driving released transformers models from outside, the same way for every family."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from vidcap.engine.attention import AttentionStep, KeysKept
from vidcap.engine.model import Deepstack, KVSpec
from vidcap.engine.probe import Probe
from vidcap.engine.shards import Shards
from vidcap.errors import ModelError
from vidcap.models.lean import LeanDecoder, has_lean_form
from vidcap.models.packed import Projection, linear_maker
from vidcap.settings import AttentionName


class ReleasedLanguageModel:
    """The text half of a released Video-LLM (``model.model.language_model`` and ``lm_head``).

    Satisfies :class:`vidcap.engine.model.LanguageModel`. The engine's state travels as the keyword
    argument ``vidcap`` to the registered attention function; no cache object is made.
    """

    def __init__(
        self,
        model: Any,
        *,
        lean: bool = True,
        attention: AttentionName = "auto",
        shards: Shards | None = None,
    ):
        """Args:
            model: a ForConditionalGeneration model whose text attention is ours.
            lean: run tail rows through :class:`LeanDecoder` where the layers allow it.
            attention: see :class:`vidcap.settings.ModelSettings`.
            shards: the ranks that share its layers; it then has the parts of this one.

        Raises:
            ModelError: when the checkpoint uses sliding-window attention.
        """
        self._text = model.model.language_model
        self._head = model.lm_head
        self._embedding = model.get_input_embeddings()
        runs_lean = lean and has_lean_form(self._text)
        self._lean = LeanDecoder(self._text, shards) if runs_lean else None
        if self._lean is not None and self._head.bias is None:
            make = linear_maker([self._head.weight])
            self._project: Projection = make(self._head.weight, None)
        else:
            self._project = self._head
        self._may_end_early = not _is_hooked(self._text.layers[-1])
        config = self._text.config
        if "sliding_attention" in (getattr(config, "layer_types", None) or ()):
            raise ModelError("checkpoints with sliding-window attention are not supported")
        weight = self._embedding.weight
        head_dim = getattr(config, "head_dim", None)
        self._spec = KVSpec(
            layers=config.num_hidden_layers,
            kv_heads=config.num_key_value_heads // (shards.count if shards is not None else 1),
            group=config.num_attention_heads // config.num_key_value_heads,
            head_dim=head_dim or config.hidden_size // config.num_attention_heads,
            dtype=weight.dtype,
            device=weight.device,
            attention=attention,
            layer_devices=_layer_devices(self._text.layers, weight.device),
            shards=shards,
        )

    @property
    def kv_spec(self) -> KVSpec:
        """Sizes of the keys and values."""
        return self._spec

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings [b, n, d] of Long[b, n] text ids."""
        embeds: Tensor = self._embedding(ids)
        return embeds

    def forward(self, embeds: Tensor, position_ids: Tensor, step: AttentionStep) -> Tensor:
        """Last hidden states [b, n, d], after the final norm."""
        lean = step.first is not None and not step.visual and not _wants_layers(step.probe)
        if lean and self._lean is not None:
            return self._lean.forward(embeds, position_ids, step)
        if step.keys_only and not self._may_end_early:
            step = replace(step, keys_only=False)
        with self._collecting(step.probe):
            try:
                hidden: Tensor = self._text(
                    inputs_embeds=embeds,
                    position_ids=position_ids,
                    use_cache=False,
                    vidcap=step,
                    **_deepstack_arguments(step.deepstack, embeds),
                ).last_hidden_state
            except KeysKept:
                return embeds[:, :0]
        return hidden

    @contextmanager
    def _collecting(self, probe: Probe | None) -> Iterator[None]:
        """Hands the inputs of the wanted layers to the probe.

        A hook in front of a layer sees what the layer sees, in every release and family; the
        releases' own ``output_hidden_states`` differ in both.
        """
        handles = []
        if probe is not None:
            for layer in probe.needs.layer_inputs | probe.needs.visual_inputs:
                hook = partial(_keep_input, probe, layer)
                module = self._text.layers[layer]
                handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [b, n, V] in the model's dtype."""
        logits: Tensor = self._project(hidden)
        return logits


def _layer_devices(layers: Sequence[Any], first: torch.device) -> tuple[torch.device, ...]:
    """Where every layer runs; empty where all of them do on `first`."""
    devices = tuple(_execution_device(layer) for layer in layers)
    return () if set(devices) == {first} else devices


def _is_hooked(layer: nn.Module) -> bool:
    """Whether accelerate brings weights and tensors to a layer, and tidies up behind it."""
    return any(hasattr(module, "_hf_hook") for module in layer.modules())


def _execution_device(layer: Any) -> torch.device:
    """Where accelerate's hook runs a layer, or, without one, where its weights lie."""
    device = getattr(getattr(layer, "_hf_hook", None), "execution_device", None)
    if device is None:
        own: torch.device = next(layer.parameters()).device
        return own
    return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)


def _deepstack_arguments(deepstack: Deepstack | None, embeds: Tensor) -> dict[str, Any]:
    """How the text model of Qwen3-VL takes visual features for its first layers."""
    if deepstack is None:
        return {}
    rows = torch.zeros(embeds.shape[:2], dtype=torch.bool, device=embeds.device)
    rows[:, deepstack.columns] = True
    return {
        "visual_pos_masks": rows,
        "deepstack_visual_embeds": [features.flatten(0, 1) for features in deepstack.features],
    }


def _wants_layers(probe: Probe | None) -> bool:
    return probe is not None and bool(probe.needs.layer_inputs | probe.needs.visual_inputs)


def _keep_input(
    probe: Probe, layer: int, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    # The hook sees every caller of the layer; other threads bring other steps.
    step = kwargs.get("vidcap")
    if step is not None and step.probe is probe:
        probe.keep_input(layer, args[0] if args else kwargs["hidden_states"])


class _Captured(Exception):  # noqa: N818 (control flow, not an error)
    """Carries the arguments of the text model out of the multimodal forward."""

    def __init__(self, arguments: dict[str, Any]):
        super().__init__("captured")
        self.arguments = arguments


def capture_text_inputs(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """What a multimodal model would hand to its text model: embeddings, positions and more.

    The released forward runs up to its text model (vision tower, embedding glue, M-RoPE ids) and is
    left there, so nothing of it is rewritten here and every release's own version is used.

    Args:
        model: a ForConditionalGeneration model.
        inputs: arguments of ``model.model.forward``.

    Returns:
        keyword arguments of ``model.model.language_model``.
    """

    def leave(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # Another thread's prefill of the same model goes its way.
        if "vidcap" not in kwargs:
            raise _Captured(kwargs)

    handle = model.model.language_model.register_forward_pre_hook(leave, with_kwargs=True)
    try:
        model.model(**inputs, use_cache=False)
    except _Captured as captured:
        return captured.arguments
    finally:
        handle.remove()
    raise ModelError(f"{type(model).__name__} did not call its text model")


def native_bf16(device: torch.device) -> bool:
    """Whether the device computes in bfloat16 itself."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        # Older releases of torch do not tell; float32 is right everywhere.
        features: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
        return bool(features.get("avx512_bf16") or features.get("amx_bf16"))
    return False
