"""The training loop: schedule, optimiser, log, and states from which a run goes on after a kill."""

from __future__ import annotations

import math
import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from vidcap.demo.batches import Batch, Batches, Worlds
from vidcap.demo.encoding import Encoder
from vidcap.demo.optimizer import Optimizer
from vidcap.demo.world import FIRST_WORLD

LOG_EVERY = 20
SAVE_EVERY_S = 180.0


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of the recipe.

    Attributes:
        name: of the state file and in the log.
        steps: most steps; fewer where the time budget ends first.
        clips: most clips per step.
        peak_lr: learning rate after warm-up; it then falls along a cosine to ``floor`` of it.
        check_every: steps between checks on held-out clips.
        worlds, rows, practice, practice_share: see :class:`vidcap.demo.batches.Batches`.
        keep_tower: whether the target's vision tower stays as it is.
    """

    name: str
    steps: int
    clips: int
    peak_lr: float = 1e-3
    warmup: int = 50
    floor: float = 0.02
    check_every: int = 250
    worlds: Worlds = ((FIRST_WORLD, 1.0),)
    rows: int | None = None
    practice: int = 0
    practice_share: float = 0.5
    keep_tower: bool = False


class Log:
    """Lines of a run, with running means of what the losses note in between."""

    def __init__(self, write: Callable[[str], None]):
        self.write = write
        self._noted: dict[str, list[Tensor]] = {}

    def note(self, name: str, value: Tensor) -> None:
        """Remember a scalar until the next line."""
        self._noted.setdefault(name, []).append(value.detach())

    def means(self) -> str:
        """Means of what was noted since the last call, as text."""
        means = {name: torch.stack(values).mean().item() for name, values in self._noted.items()}
        self._noted.clear()
        return ", ".join(f"{name} {mean:.4f}" for name, mean in means.items())


@dataclass(frozen=True, slots=True)
class Run:
    """What stays the same over all stages of a run.

    Attributes:
        out: folder of states and checkpoints.
        minutes: time budget of a stage by its name; None for the full number of steps.
        resume: go on from a state that is there.
        workers: processes that render.
        codec: whether clips go through H.264.
        log: where lines go.
    """

    out: Path
    encoder: Encoder
    seed: int
    device: torch.device
    minutes: dict[str, float] | None
    resume: bool
    log: Log
    workers: int = 1
    codec: bool = True


class Clock:
    """How far a stage is, by steps or by time, whichever is further."""

    def __init__(self, stage: Stage, minutes: float | None, elapsed_s: float = 0.0):
        self._stage = stage
        self._budget_s = math.inf if minutes is None else minutes * 60
        self._start = time.monotonic() - elapsed_s

    @property
    def elapsed_s(self) -> float:
        """Seconds that the stage took, those before it was resumed included."""
        return time.monotonic() - self._start

    def progress(self, step: int) -> float:
        """0 at the start, 1 at the end."""
        return max(step / self._stage.steps, self.elapsed_s / self._budget_s)

    def lr(self, step: int) -> float:
        """Linear warm-up, then a cosine over what is left."""
        stage = self._stage
        share = min(1.0, self.progress(step))
        cosine = stage.floor + (1 - stage.floor) * 0.5 * (1 + math.cos(math.pi * share))
        return stage.peak_lr * min(1.0, (step + 1) / stage.warmup) * cosine


def fit(
    run: Run,
    stage: Stage,
    module: nn.Module,
    loss_of: Callable[[Batch], Tensor],
    check: Callable[[], str],
) -> None:
    """Train ``module`` until the stage's steps or minutes are over.

    Args:
        module: every parameter that learns, and whatever else belongs into the state file.
        loss_of: the loss of one batch on the run's device.
        check: called now and then without gradients; what it returns is logged.
    """
    path = run.out / f"{stage.name}.pt"
    optimizer = Optimizer(module)
    step, elapsed_s = _restore(path, module, optimizer) if run.resume else (0, 0.0)
    minutes = None if run.minutes is None else run.minutes[stage.name]
    clock = Clock(stage, minutes, elapsed_s)
    if clock.progress(step) >= 1:
        run.log.write(f"{stage.name}: already finished after {step} steps")
        return
    saved_s = clock.elapsed_s
    for batch in _loader(run, stage, step):
        loss = loss_of(batch.to(run.device))
        run.log.note("loss", loss)
        _step(module, optimizer, loss, clock.lr(step))
        step += 1
        if step % LOG_EVERY == 0:
            run.log.write(_line(run, stage, step, clock))
        if step % stage.check_every == 0:
            run.log.write(f"{stage.name} {step}: {_checked(check)}")
        if clock.progress(step) >= 1:
            break
        if clock.elapsed_s - saved_s > SAVE_EVERY_S:
            saved_s = clock.elapsed_s
            _save(path, module, optimizer, step, clock.elapsed_s)
    _save(path, module, optimizer, step, clock.elapsed_s)
    run.log.write(f"{_line(run, stage, step, clock)}, finished: {_checked(check)}")


def _loader(run: Run, stage: Stage, start: int) -> DataLoader[Batch]:
    """The stage's own batches from ``start`` on, rendered by one process beside the training."""
    seed = run.seed + zlib.crc32(stage.name.encode())
    return DataLoader(
        Batches(
            run.encoder,
            seed,
            stage.clips,
            stage.steps,
            worlds=stage.worlds,
            rows=stage.rows,
            codec=run.codec,
            practice=stage.practice,
            practice_share=stage.practice_share,
        ),
        batch_size=None,
        sampler=range(start, stage.steps),
        num_workers=run.workers,
        prefetch_factor=4,
    )


def _step(module: nn.Module, optimizer: Optimizer, loss: Tensor, lr: float) -> None:
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for p in module.parameters() if p.requires_grad], 1.0)
    optimizer.step(lr)


def _checked(check: Callable[[], str]) -> str:
    with torch.no_grad():
        return check()


def _line(run: Run, stage: Stage, step: int, clock: Clock) -> str:
    return (
        f"{stage.name} {step}: {run.log.means()}, lr {clock.lr(step):.2e}, "
        f"{clock.elapsed_s / 60:.1f} min, {clock.progress(step):.0%}"
    )


def _save(path: Path, module: nn.Module, optimizer: Optimizer, step: int, elapsed_s: float) -> None:
    """Write the state beside the old one, then replace that: a kill never leaves half a file."""
    state: dict[str, Any] = {
        "module": module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "elapsed_s": elapsed_s,
    }
    beside = path.with_suffix(".part")
    torch.save(state, beside)
    os.replace(beside, path)


def _restore(path: Path, module: nn.Module, optimizer: Optimizer) -> tuple[int, float]:
    if not path.exists():
        return 0, 0.0
    state = torch.load(path, map_location="cpu", weights_only=True)
    module.load_state_dict(state["module"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"], state["elapsed_s"]
