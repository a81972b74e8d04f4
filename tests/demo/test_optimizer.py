"""Which parameters which optimizer moves, and how far."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from vidcap.demo.optimizer import DECAY, Optimizer

LR = 0.01


class Small(nn.Module):
    """A matrix and a vector inside a layer, and outside."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(24, 12)])
        self.outer = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.outer(self.layers[0](x))
        return out


def step(module: Small, optimizer: Optimizer, lr: float = LR) -> None:
    x = torch.randn(16, 24, generator=torch.Generator().manual_seed(1))
    module(x).square().sum().backward()
    optimizer.step(lr)


def test_steps_of_layer_matrices_are_orthogonal_and_as_large_as_those_of_adamw() -> None:
    module = Small()
    start = {name: p.detach().clone() for name, p in module.named_parameters()}
    step(module, Optimizer(module))
    moved = {name: p.detach() - start[name] for name, p in module.named_parameters()}
    inner = moved["layers.0.weight"] + LR * DECAY * start["layers.0.weight"]
    stretch = torch.linalg.svdvals(inner) / (0.2 * LR * 24**0.5)
    # Five outputs follow, so the gradient has rank 5: five directions, all about alike.
    assert ((stretch[:5] > 0.5) & (stretch[:5] < 1.5)).all()
    assert torch.allclose(moved["layers.0.bias"].abs(), torch.tensor(LR), rtol=1e-3)
    assert torch.allclose(moved["outer.bias"].abs(), torch.tensor(LR), rtol=1e-3)


def test_only_matrices_decay() -> None:
    module = Small()
    start = {name: p.detach().clone() for name, p in module.named_parameters()}
    for p in module.parameters():
        p.grad = torch.zeros_like(p)
    Optimizer(module).step(LR)
    for name, p in module.named_parameters():
        kept = 1 - LR * DECAY if p.ndim == 2 else 1.0
        assert torch.allclose(p, start[name] * kept, rtol=1e-6, atol=0), name


def test_gradients_are_forgotten_and_a_state_goes_on_where_it_was() -> None:
    one, other = Small(), Small()
    first, second = Optimizer(one), Optimizer(other)
    step(one, first)
    assert all(p.grad is None for p in one.parameters())
    other.load_state_dict(one.state_dict())
    second.load_state_dict(deepcopy(first.state_dict()))
    step(one, first)
    step(other, second)
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q)
