"""Cutting a released model over ranks, with what transformers has for it.

transformers loads only a rank's part of each weight and adds up the ranks' results behind the
projections that need it. Embedding, norms, vision tower and output stay whole, in the first rank
alone: every rank would need the same numbers from them, and they are small beside the layers.
"""

from __future__ import annotations

from typing import Any

from torch import nn

#: How the projections of a decoder layer are cut: by rows where each rank goes on with its own part
#: of the result, by columns where the parts are added up. What transformers lists for the text
#: models of Qwen2 and Qwen3; Qwen3-VL, whose layers are Qwen3's, has no list of its own.
LAYER_PLAN = {
    "self_attn.q_proj": "colwise",
    "self_attn.k_proj": "colwise",
    "self_attn.v_proj": "colwise",
    "self_attn.o_proj": "rowwise",
    "mlp.gate_proj": "colwise",
    "mlp.up_proj": "colwise",
    "mlp.down_proj": "rowwise",
}

_TEXT = "model.language_model."

#: The plan for a whole model; without the last two, transformers cuts embedding and output as well.
PLAN = {
    **{f"{_TEXT}layers.*.{name}": style for name, style in LAYER_PLAN.items()},
    f"{_TEXT}embed_tokens": "replicate",
    "lm_head": "replicate",
}


def cutting_arguments(count: int) -> dict[str, Any]:
    """What ``from_pretrained`` is to be told in each of `count` ranks."""
    from transformers.distributed.configuration_utils import DistributedConfig

    return {"distributed_config": DistributedConfig(tp_size=count, tp_plan=dict(PLAN))}


def unwrap_parts(model: nn.Module) -> None:
    """Replace weights that know of the other ranks by this rank's parts alone.

    transformers unwraps them in every call; nothing but training needs to know the whole.
    """
    from torch.distributed.tensor import DTensor

    for module in model.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            if isinstance(weight, DTensor):
                part = nn.Parameter(weight.to_local(), requires_grad=False)
                module.register_parameter(name, part)


def keep_layers_only(model: Any) -> None:
    """Let go of what the first rank does alone.

    One row of embedding and output stays, from which their device and number format are known.
    """
    for name, part in model.model.named_children():
        if name != "language_model":
            part.to("meta")
    for part in (model.get_input_embeddings(), model.lm_head):
        part.weight = nn.Parameter(part.weight[:1].detach().clone(), requires_grad=False)
