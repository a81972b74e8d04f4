"""Train the demo pair: ``python -m vidcap.demo.train --out FOLDER``.

Three stages. The vision tower learns alone what each visual token shows, through linear heads that
are thrown away; captions alone would take many times longer to get there. Then the target learns
captions and answers. Then the draft, which starts from the target's vision tower, learns the same
texts and the target's probabilities on them. See ``vidcap/demo/README.md`` for what came out.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoTokenizer

from vidcap.demo.batches import FIRST_TRAINING_SEED, HELD_OUT_SEED, Batch, Batches, Encoder
from vidcap.demo.checkpoint import (
    DRAFT_SHAPE,
    TARGET_SHAPE,
    ModelShape,
    build_model,
    save_checkpoint,
)
from vidcap.demo.evaluate import agreement, fact_score, predict
from vidcap.demo.fit import Log, Run, Stage, fit
from vidcap.demo.forward import Forward
from vidcap.demo.language import DESCRIBE_PROMPTS, caption, questions
from vidcap.demo.scenes import LABEL_CLASSES, sample_scene
from vidcap.demo.tokenizer import train_tokenizer

VISION = Stage("vision", steps=1000, clips=16, peak_lr=2e-3, check_every=100)
TARGET = Stage("target", steps=2400, clips=16)
DRAFT = Stage("draft", steps=1200, clips=16, peak_lr=2e-3)
#: How a time budget for all stages is shared.
TIME_SHARES = {"vision": 0.1, "target": 0.7, "draft": 0.2}
TOKENIZER_SCENES = 3000
#: Weight of the labels of visual tokens while the target learns to write.
LABEL_WEIGHT = 0.25


def tokenizer_texts(scenes: int) -> Iterator[str]:
    """Captions, questions and answers from which the tokenizer learns its merges."""
    yield from DESCRIBE_PROMPTS * 20
    rng = np.random.default_rng(0)
    for number in range(scenes):
        scene = sample_scene(FIRST_TRAINING_SEED + number)
        yield caption(scene, rng)
        for pair in questions(scene, rng):
            yield from pair


def load_tokenizer(out: Path) -> Any:
    """The run's tokenizer, trained where it is not there yet."""
    folder = out / "tokenizer"
    if not folder.exists():
        train_tokenizer(tokenizer_texts(TOKENIZER_SCENES)).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


class Pair:
    """Models of a run and how they are trained."""

    def __init__(
        self,
        run: Run,
        tokenizer: Any,
        *,
        compiled: bool,
        shapes: tuple[ModelShape, ModelShape] = (TARGET_SHAPE, DRAFT_SHAPE),
        stages: tuple[Stage, Stage, Stage] = (VISION, TARGET, DRAFT),
    ):
        self.run, self.tokenizer, self.compiled, self.stages = run, tokenizer, compiled, stages
        self.target: Any = build_model(shapes[0], tokenizer, run.seed)
        self.draft: Any = build_model(shapes[1], tokenizer, run.seed + 1)
        torch.manual_seed(run.seed + 2)
        self.heads = nn.ModuleDict(
            {key: nn.Linear(shapes[0].hidden, classes) for key, classes in LABEL_CLASSES.items()}
        )
        modules: list[Any] = [self.target, self.draft, self.heads]
        for module in modules:
            module.to(run.device)
        #: What the state file of each stage holds.
        self.parts = {
            "vision": nn.ModuleDict({"visual": self.target.model.visual, "heads": self.heads}),
            "target": nn.ModuleDict({"model": self.target, "heads": self.heads}),
            "draft": nn.ModuleDict({"model": self.draft}),
        }

    def forward(self, model: Any, *, training: bool = True) -> Forward:
        """bfloat16 products for training, the plain float32 forward for checks."""
        if training:
            return Forward(model, torch.bfloat16, compiled=self.compiled)
        return Forward(model)

    def held_out(self, clips: int, batches: int) -> list[Batch]:
        """Batches of clips that training never draws."""
        drawn = Batches(self.run.encoder, 0, clips, batches, first_seed=HELD_OUT_SEED)
        return [batch.to(self.run.device) for batch in drawn]

    def train_vision(self) -> None:
        """Vision tower and throw-away heads on what each visual token shows."""
        forward, checked = self.forward(self.target), self.held_out(16, 4)
        plain = self.forward(self.target, training=False)

        def loss_of(batch: Batch) -> Tensor:
            return label_loss(forward.vision(batch.frames), self.heads, batch)

        def check() -> str:
            return label_accuracy(plain, self.heads, checked)

        fit(self.run, self.stages[0], self.parts["vision"], loss_of, check)

    def train_target(self) -> None:
        """The target on captions and answers, and still a little on what each token shows."""
        forward, checked = self.forward(self.target), self.held_out(16, 2)
        plain = self.forward(self.target, training=False)

        def loss_of(batch: Batch) -> Tensor:
            visual = forward.vision(batch.frames)
            logits = text_logits(forward, batch, visual)
            text = F.cross_entropy(logits, batch.targets[batch.targets >= 0])
            self.run.log.note("text", text)
            return text + LABEL_WEIGHT * label_loss(visual, self.heads, batch)

        def check() -> str:
            return facts(plain, checked, self.run) + label_accuracy(plain, self.heads, checked)

        fit(self.run, self.stages[1], self.parts["target"], loss_of, check)

    def train_draft(self) -> None:
        """The draft on the same texts: half by their tokens, half by the target's probabilities."""
        teacher, forward = self.forward(self.target), self.forward(self.draft)
        plain = self.forward(self.target, training=False)
        small = self.forward(self.draft, training=False)
        checked = self.held_out(16, 2)

        def loss_of(batch: Batch) -> Tensor:
            with torch.no_grad():
                wanted = F.log_softmax(text_logits(teacher, batch), -1)
            logits = F.log_softmax(text_logits(forward, batch), -1)
            far = F.kl_div(logits, wanted, reduction="batchmean", log_target=True)
            text = F.nll_loss(logits, batch.targets[batch.targets >= 0])
            self.run.log.note("text", text)
            return 0.5 * far + 0.5 * text

        def check() -> str:
            alike = sum(agreement(plain, small, batch) for batch in checked) / len(checked)
            return f"{facts(small, checked, self.run)}agreement {alike:.3f}"

        copy_vision(self.target, self.draft)
        fit(self.run, self.stages[2], self.parts["draft"], loss_of, check)

    def save(self) -> None:
        """Write both checkpoints: ``out/target`` and ``out/draft``."""
        save_checkpoint(self.target, self.tokenizer, self.run.out / "target")
        save_checkpoint(self.draft, self.tokenizer, self.run.out / "draft")


def text_logits(forward: Forward, batch: Batch, visual: Tensor | None = None) -> Tensor:
    """Logits [rows, vocabulary] of the rows of a batch at which something is learnt."""
    return forward.logits(predict(forward, batch, visual)[batch.targets >= 0])


def label_loss(visual: Tensor, heads: nn.ModuleDict, batch: Batch) -> Tensor:
    """Cross-entropy of the heads on visual tokens [b, tokens, hidden], summed over the labels."""
    losses = [
        F.cross_entropy(head(visual).flatten(0, 1), batch.labels[key].flatten())
        for key, head in heads.items()
    ]
    return torch.stack(losses).sum()


def facts(forward: Forward, checked: list[Batch], run: Run) -> str:
    """Facts of greedy captions of held-out clips, as text for the log."""
    score, texts = fact_score(forward, checked, run.encoder)
    kinds = ", ".join(
        f"{kind} {right}/{sum(rest, right)}" for kind, (right, *rest) in score.by_kind.items()
    )
    return f"facts {score.accuracy:.3f} ({kinds}); '{texts[0]}'; "


def label_accuracy(forward: Forward, heads: nn.ModuleDict, batches: list[Batch]) -> str:
    """Per label, the share right among visual tokens that show an object."""
    right = dict.fromkeys(LABEL_CLASSES, 0.0)
    count = 0
    for batch in batches:
        visual = forward.vision(batch.frames)
        shown = batch.labels["shape"] > 0
        count += int(shown.sum())
        for key in LABEL_CLASSES:
            guess = heads[key](visual).argmax(-1)
            right[key] += float(((guess == batch.labels[key]) & shown).sum())
    return ", ".join(f"{key} {value / count:.3f}" for key, value in right.items())


def copy_vision(source: Any, to: Any) -> None:
    """Start a vision tower from another's; only the last projection differs in shape."""
    state = source.model.visual.state_dict()
    own = to.model.visual.state_dict()
    same = {name: value for name, value in state.items() if value.shape == own[name].shape}
    to.model.visual.load_state_dict({**own, **same})


def load_state(pair: Pair, stage: Stage) -> None:
    """Parameters of a finished or running stage.

    Raises:
        FileNotFoundError: the stage has not run in this folder.
    """
    path = pair.run.out / f"{stage.name}.pt"
    state = torch.load(path, map_location="cpu", weights_only=True)
    pair.parts[stage.name].load_state_dict(state["module"])


def main(arguments: list[str] | None = None) -> None:
    """Entry point; see ``--help``."""
    options = _parser().parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.threads:
        torch.set_num_threads(options.threads)
    tokenizer = load_tokenizer(options.out)
    run = Run(
        out=options.out,
        encoder=Encoder(tokenizer),
        seed=options.seed,
        device=_device(options.device),
        minutes=_minutes(options.stage, options.minutes),
        resume=options.resume,
        log=Log(lambda line: print(time.strftime("%H:%M:%S"), line, flush=True)),
    )
    train(
        Pair(run, tokenizer, compiled=options.compile and shutil.which("c++") is not None),
        options.stage,
    )


def train(pair: Pair, stage: str) -> None:
    """Run one stage, or ``all``; a single stage starts from the states of those before it."""
    vision, target, draft = pair.stages
    if stage in ("all", "vision"):
        pair.train_vision()
    if stage == "target":
        load_state(pair, vision)
    if stage in ("all", "target"):
        pair.train_target()
    if stage in ("draft", "save"):
        load_state(pair, target)
    if stage in ("all", "draft"):
        pair.train_draft()
    if stage == "save":
        load_state(pair, draft)
    if stage in ("all", "draft", "save"):
        pair.save()


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _minutes(stage: str, minutes: float | None) -> dict[str, float] | None:
    if minutes is None:
        return None
    shares = TIME_SHARES if stage == "all" else {stage: 1.0}
    return {name: share * minutes for name, share in shares.items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m vidcap.demo.train", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of states and checkpoints")
    parser.add_argument(
        "--stage", choices=("all", "vision", "target", "draft", "save"), default="all"
    )
    parser.add_argument("--minutes", type=float, help="time budget; the schedule shrinks to fit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda ...")
    parser.add_argument("--threads", type=int, help="CPU threads of the model")
    parser.add_argument("--resume", action="store_true", help="go on from the states in --out")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
