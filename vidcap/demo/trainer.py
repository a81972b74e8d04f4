"""The pair that a run trains, and its stages one by one; see :mod:`vidcap.demo.train`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vidcap.demo.batches import HELD_OUT_SEED, Batch, Batches
from vidcap.demo.checkpoint import (
    DRAFT_SHAPE,
    TARGET_SHAPE,
    ModelShape,
    adopt_tower,
    adopt_weights,
    build_model,
    save_checkpoint,
)
from vidcap.demo.evaluate import agreement, fact_score, question_score
from vidcap.demo.fit import Run, Stage, fit
from vidcap.demo.forward import Forward
from vidcap.demo.losses import (
    TextStates,
    label_accuracy,
    label_heads,
    label_loss,
    likeness,
    text_loss,
    word_weights,
)
from vidcap.demo.recipe import (
    ANSWER_WEIGHT,
    FAR_WEIGHT,
    LABEL_WEIGHT,
    STAGES,
    STATE_LAYERS,
    STATE_WEIGHT,
)
from vidcap.demo.scenes import LABEL_CLASSES
from vidcap.demo.states import STATE_CLASSES

#: Batches on which a stage is checked, and clips in each.
CHECKED_BATCHES, CHECKED_CLIPS = 3, 12
#: Stages whose states a stage starts from where it runs alone.
BEFORE = {
    "target": ("vision",),
    "long": ("target",),
    "answers": ("long",),
    "events": ("answers",),
    "draft": ("answers", "events"),
    "match": ("answers", "events", "draft"),
    "save": ("answers", "events", "match"),
}


class Pair:
    """Models of a run and how they are trained."""

    def __init__(
        self,
        run: Run,
        tokenizer: Any,
        *,
        compiled: bool,
        shapes: tuple[ModelShape, ModelShape] = (TARGET_SHAPE, DRAFT_SHAPE),
        stages: Mapping[str, Stage] = STAGES,
        layers: tuple[int, int] = STATE_LAYERS,
    ):
        self.run, self.tokenizer, self.compiled, self.stages = run, tokenizer, compiled, stages
        self.layers = layers
        self.target: Any = build_model(shapes[0], tokenizer, run.seed)
        self.draft: Any = build_model(shapes[1], tokenizer, run.seed + 1)
        torch.manual_seed(run.seed + 2)
        self.heads = label_heads(shapes[0].hidden, LABEL_CLASSES)
        self.states = label_heads(shapes[0].hidden, STATE_CLASSES)
        self.draft_states = label_heads(shapes[1].hidden, STATE_CLASSES)
        target = nn.ModuleDict({"model": self.target, "heads": self.heads, "states": self.states})
        draft = nn.ModuleDict({"model": self.draft, "states": self.draft_states})
        #: What the state file of each stage holds.
        self.parts = {
            "vision": nn.ModuleDict({"visual": self.target.model.visual, "heads": self.heads}),
            "target": target,
            "long": target,
            "answers": target,
            "events": target,
            "draft": draft,
            "match": draft,
        }
        for part in self.parts.values():
            part.to(run.device)
        self.weights = word_weights(tokenizer, self.target.lm_head.weight.shape[0]).to(run.device)

    def adopt(self, folder: Path) -> None:
        """Start from the pair in ``folder/target`` and ``folder/draft``."""
        adopt_weights(self.target, self.tokenizer, folder / "target")
        adopt_weights(self.draft, self.tokenizer, folder / "draft")

    def forward(self, model: Any, *, training: bool = True) -> Forward:
        """bfloat16 products for training, the plain float32 forward for checks."""
        if training:
            return Forward(model, torch.bfloat16, compiled=self.compiled)
        return Forward(model)

    def held_out(self, stage: str) -> list[Batch]:
        """Batches of clips that training never draws."""
        drawn = Batches(
            self.run.encoder,
            0,
            min(CHECKED_CLIPS, self.stages[stage].clips),
            CHECKED_BATCHES,
            first_seed=HELD_OUT_SEED,
            worlds=self.stages[stage].worlds,
            rows=self.stages[stage].rows,
            codec=self.run.codec,
        )
        return [batch.to(self.run.device) for batch in drawn]

    def train_vision(self) -> None:
        """Vision tower and throw-away heads on what each visual token shows."""
        forward, checked = self.forward(self.target), self.held_out("vision")
        plain = self.forward(self.target, training=False)

        def loss_of(batch: Batch) -> Tensor:
            return label_loss(forward.vision(batch.frames), self.heads, batch)

        def check() -> str:
            return self.shown(plain, checked)

        fit(self.run, self.stages["vision"], self.parts["vision"], loss_of, check)

    def train_target(self, stage: str = "target") -> None:
        """The target on captions and answers, and still a little on what each token shows."""
        forward, checked = self.forward(self.target), self.held_out(stage)
        plain = self.forward(self.target, training=False)
        self.target.model.visual.requires_grad_(not self.stages[stage].keep_tower)
        read = TextStates(forward, self.layers[0])

        def loss_of(batch: Batch) -> Tensor:
            visual = forward.vision(batch.frames)
            logits, states = read(batch, visual)
            text = text_loss(logits, batch, self.weights, ANSWER_WEIGHT)
            known = label_loss(states, self.states, batch)
            self.run.log.note("text", text)
            self.run.log.note("states", known)
            shown = label_loss(visual, self.heads, batch)
            return text + LABEL_WEIGHT * shown + STATE_WEIGHT * known

        def check() -> str:
            return facts(plain, checked, self.run) + self.shown(plain, checked)

        fit(self.run, self.stages[stage], self.parts[stage], loss_of, check)

    def train_draft(self, stage: str = "draft") -> None:
        """The draft on the same texts; in ``match`` on what the target makes of them.

        There the target's choice at every place is the label, for a draft counts where it is that
        choice, and the target's probabilities are a part of the loss, for trees and sampling. Words
        that carry facts weigh more here as well: no verifier may forgive a draft that errs there.
        """
        large, small = self.forward(self.target), self.forward(self.draft)
        teacher = TextStates(large, self.layers[0]) if stage == "match" else None
        read = TextStates(small, self.layers[1])

        def loss_of(batch: Batch) -> Tensor:
            with torch.no_grad():
                seen = large.trunk(batch.frames)
            logits, states = read(batch, small.merge(seen, len(batch.frames)))
            known = STATE_WEIGHT * label_loss(states, self.draft_states, batch)
            if teacher is None:
                text = text_loss(logits, batch, self.weights)
                self.run.log.note("text", text)
                return text + known
            with torch.no_grad():
                wanted = teacher(batch, large.merge(seen, len(batch.frames)))[0]
            far, unlike = likeness(logits, wanted, self.weights)
            self.run.log.note("far", far)
            self.run.log.note("unlike", unlike)
            return FAR_WEIGHT * far + (1 - FAR_WEIGHT) * unlike + known

        adopt_tower(self.target, self.draft, merger=stage == "draft")
        check = self._draft_check(self.held_out(stage))
        fit(self.run, self.stages[stage], self.parts[stage], loss_of, check)

    def _draft_check(self, checked: list[Batch]) -> Callable[[], str]:
        plain = self.forward(self.target, training=False)
        small = self.forward(self.draft, training=False)

        def check() -> str:
            alike = sum(agreement(plain, small, batch) for batch in checked) / len(checked)
            return f"{facts(small, checked, self.run)}agreement {alike:.3f}"

        return check

    def shown(self, forward: Forward, checked: list[Batch]) -> str:
        """Labels right at visual tokens of held-out clips that show an object, for the log."""
        tokens = ((forward.vision(batch.frames), batch) for batch in checked)
        right = label_accuracy(tokens, self.heads, LABEL_CLASSES)
        return ", ".join(f"{key} {value:.3f}" for key, value in right.items())

    def save(self) -> None:
        """Write both checkpoints: ``out/target`` and ``out/draft``."""
        save_checkpoint(self.target, self.tokenizer, self.run.out / "target")
        save_checkpoint(self.draft, self.tokenizer, self.run.out / "draft")


def facts(forward: Forward, checked: list[Batch], run: Run) -> str:
    """Facts of greedy captions and answers on held-out clips, as text for the log."""
    score, texts = fact_score(forward, checked, run.encoder)
    kinds = ", ".join(
        f"{kind} {right}/{sum(rest, right)}" for kind, (right, *rest) in score.by_kind.items()
    )
    answers = ", ".join(
        f"{kind} {right}/{count}"
        for kind, (right, count) in question_score(forward, checked, run.encoder).items()
    )
    return f"facts {score.accuracy:.3f} ({kinds}); answers ({answers}); '{texts[0]}'; "


def load_state(pair: Pair, stage: str) -> None:
    """Take on the parameters of a finished or running stage.

    Raises:
        FileNotFoundError: the stage has not run in this folder.
    """
    state = torch.load(pair.run.out / f"{stage}.pt", map_location="cpu", weights_only=True)
    pair.parts[stage].load_state_dict(state["module"])


def train(pair: Pair, stage: str) -> None:
    """Run one stage, or ``all``; a single stage starts from the states of those before it."""
    for before in BEFORE.get(stage, ()):
        if (pair.run.out / f"{before}.pt").exists():
            load_state(pair, before)
    if stage in ("all", "vision"):
        pair.train_vision()
    for name in ("target", "long", "answers", "events"):
        if stage in ("all", name):
            pair.train_target(name)
    for name in ("draft", "match"):
        if stage in ("all", name):
            pair.train_draft(name)
    if stage in ("all", "match", "save"):
        pair.save()
