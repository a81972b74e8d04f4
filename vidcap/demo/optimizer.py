"""Muon for the matrices of the layers, AdamW for everything else, as one optimizer.

Muon (Jordan et al. 2024) makes the steps of a matrix orthogonal, so that directions that gradients
seldom point in learn as fast as the others. Its steps are scaled to the size of AdamW's (Liu et al.
2025, "Muon is Scalable for LLM Training"): one learning rate serves both.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn

#: Weight decay of matrices.
DECAY = 0.01
#: Parameters of layers, of the text model and of the vision tower.
_IN_LAYER = re.compile(r"\b(?:layers|blocks)\.\d+\.")


class Optimizer:
    """The two over the parameters of a module that want gradients; only matrices decay."""

    def __init__(self, module: nn.Module):
        wanted = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        inner = [p for name, p in wanted if p.ndim == 2 and _IN_LAYER.search(name)]
        taken = {id(p) for p in inner}
        others = [p for _, p in wanted if id(p) not in taken]
        groups = [
            {"params": [p for p in others if p.ndim > 1], "weight_decay": DECAY},
            {"params": [p for p in others if p.ndim <= 1], "weight_decay": 0.0},
        ]
        self._parts: dict[str, torch.optim.Optimizer] = {
            "adamw": torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), fused=True)
        }
        if inner:
            self._parts["muon"] = torch.optim.Muon(
                inner, lr=0.0, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"
            )

    def step(self, lr: float) -> None:
        """One step along the gradients, which are forgotten."""
        for part in self._parts.values():
            for group in part.param_groups:
                group["lr"] = lr
            part.step()
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """The state of both."""
        return {name: part.state_dict() for name, part in self._parts.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state of the same module."""
        for name, part in self._parts.items():
            part.load_state_dict(state[name])
