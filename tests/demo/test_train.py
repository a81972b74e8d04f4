"""The training recipe on tiny models: what it draws, how it goes on, what it leaves behind."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoModelForImageTextToText

from vidcap.demo import fit as fitting
from vidcap.demo.batches import (
    FIRST_TRAINING_SEED,
    HELD_OUT_SEED,
    Batches,
    Encoder,
    buckets,
    make_batch,
)
from vidcap.demo.checkpoint import ModelShape
from vidcap.demo.clips import LAST_SEED
from vidcap.demo.fit import Clock, Log, Run, Stage, fit
from vidcap.demo.scenes import FIRST_WORLD, frame_times, sample_scene, truth
from vidcap.demo.score import score_caption
from vidcap.demo.tokenizer import train_tokenizer
from vidcap.demo.train import Pair, copy_vision, label_loss, tokenizer_texts, train

TARGET = ModelShape(2, 64, 64, 2, mrope_section=(4, 6, 6), vision_layers=1, vision_hidden=32)
TARGET = replace(TARGET, vision_heads=2, vision_intermediate=32)
DRAFT = replace(TARGET, layers=1, hidden=32, heads=1)
STAGES = (
    Stage("vision", steps=3, clips=2, warmup=1, check_every=2),
    Stage("target", steps=3, clips=2, warmup=1, check_every=3),
    Stage("draft", steps=3, clips=2, warmup=1, check_every=3),
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(tokenizer_texts(40), 900)


@pytest.fixture(scope="module")
def encoder(tokenizer: Any) -> Encoder:
    return Encoder(tokenizer)


def start(out: Path, tokenizer: Any, lines: list[str], *, resume: bool = False) -> Pair:
    run = Run(out, Encoder(tokenizer), 0, torch.device("cpu"), None, resume, Log(lines.append))
    return Pair(run, tokenizer, compiled=False, shapes=(TARGET, DRAFT), stages=STAGES)


def weights(module: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_a_run_leaves_two_checkpoints_that_load(tokenizer: Any, tmp_path: Path) -> None:
    lines: list[str] = []
    pair = start(tmp_path, tokenizer, lines)
    before = weights(pair.target)
    train(pair, "all")
    assert not same(before, pair.target.state_dict())
    for name, model in (("target", pair.target), ("draft", pair.draft)):
        loaded = AutoModelForImageTextToText.from_pretrained(tmp_path / name)
        assert same(loaded.state_dict(), {k: v.bfloat16() for k, v in model.state_dict().items()})
    text = "\n".join(lines)
    assert "colour" in text
    assert "facts" in text
    assert "agreement" in text


def test_a_stopped_run_goes_on_where_it_was(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "SAVE_EVERY_S", -1.0)  # after every step
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    whole = start(tmp_path / "whole", tokenizer, [])
    whole.train_vision()
    cut = start(tmp_path / "cut", tokenizer, [])
    forward, batches = cut.forward(cut.target), itertools.count(1)

    def loss_of(batch: Any) -> torch.Tensor:
        if next(batches) == 3:
            raise KeyboardInterrupt
        return label_loss(forward.vision(batch.frames), cut.heads, batch)

    with pytest.raises(KeyboardInterrupt):
        fit(cut.run, STAGES[0], cut.parts["vision"], loss_of, lambda: "")
    again = start(tmp_path / "cut", tokenizer, [], resume=True)
    again.train_vision()
    assert same(weights(again.parts["vision"]), weights(whole.parts["vision"]))


def test_a_finished_stage_is_not_trained_again(tokenizer: Any, tmp_path: Path) -> None:
    start(tmp_path, tokenizer, []).train_vision()
    lines: list[str] = []
    pair = start(tmp_path, tokenizer, lines, resume=True)
    pair.train_vision()
    assert lines == ["vision: already finished after 3 steps"]


def test_the_loss_of_one_batch_falls(tokenizer: Any, encoder: Encoder, tmp_path: Path) -> None:
    pair = start(tmp_path, tokenizer, [])
    module = pair.parts["vision"]
    batch = Batches(encoder, 0, 2, 1)[0]
    forward, optimizer = pair.forward(pair.target), fitting.optimizer_for(module)
    losses = []
    for _ in range(12):
        loss = label_loss(forward.vision(batch.frames), pair.heads, batch)
        losses.append(loss.item())
        fitting._step(module, optimizer, loss, 3e-3)
    assert losses[-1] < 0.8 * losses[0]


def test_the_schedule_follows_steps_or_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count(0.0, 60.0)
    monkeypatch.setattr("vidcap.demo.fit.time.monotonic", lambda: next(now))
    stage = Stage("x", steps=100, clips=1, peak_lr=1.0, warmup=10, floor=0.1)
    by_steps = Clock(stage, None)
    rates = [by_steps.lr(step) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == pytest.approx(rates[9])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[100] == pytest.approx(0.1)
    by_time = Clock(stage, 10.0)  # the clock moves a minute whenever it is read
    assert [round(by_time.progress(0), 1) for _ in range(10)] == [k / 10 for k in range(1, 11)]


def test_batches_depend_on_seed_and_step_alone(encoder: Encoder) -> None:
    one, same_one = Batches(encoder, 7, 2, 5)[3], Batches(encoder, 7, 2, 9)[3]
    assert torch.equal(one.frames, same_one.frames)
    assert torch.equal(one.ids, same_one.ids)
    assert not torch.equal(one.frames, Batches(encoder, 7, 2, 5)[2].frames[: len(one.frames)])
    with pytest.raises(IndexError):
        Batches(encoder, 7, 2, 5)[5]


def test_training_and_its_checks_never_draw_a_seed_of_the_user(encoder: Encoder) -> None:
    trained = [scene.seed for batch in Batches(encoder, 0, 4, 4) for scene in batch.scenes]
    checked = [
        scene.seed for batch in Batches(encoder, 0, 4, 4, HELD_OUT_SEED) for scene in batch.scenes
    ]
    assert min(trained) >= FIRST_TRAINING_SEED > LAST_SEED
    assert max(trained) < HELD_OUT_SEED <= min(checked)


def test_buckets_share_size_and_grids_and_cover_the_world() -> None:
    parts = buckets(FIRST_WORLD)
    assert sum(share for _, share in parts) == pytest.approx(1)
    for world, _ in parts:
        scenes = [sample_scene(FIRST_TRAINING_SEED + k, world) for k in range(6)]
        assert len({(s.size, -(-len(frame_times(s)) // 2)) for s in scenes}) == 1
    covered = {(w.frame_sizes[0][:2], d) for w, _ in parts for d in w.durations_s}
    assert len(covered) == len(FIRST_WORLD.frame_sizes) * len(FIRST_WORLD.durations_s)


def test_targets_spell_the_answers(encoder: Encoder) -> None:
    world = buckets(FIRST_WORLD)[0][0]
    scenes = tuple(sample_scene(FIRST_TRAINING_SEED + k, world) for k in range(3))
    batch = make_batch(scenes, encoder, np.random.default_rng(0))
    for row, scene in enumerate(scenes):
        own = batch.texts[row] == 1
        learnt = batch.targets[row][own]
        answer = learnt[learnt >= 0].tolist()
        assert answer[-1] == encoder.turn_end
        facts = score_caption(truth(scene), encoder.decode(answer[:-1]))
        assert (facts.wrong, facts.missing) == (0, 0)
        ids = batch.ids[row][own].tolist()
        assert ids[-len(answer) :] == answer
    assert int((batch.texts > 1).sum()) > 0


def test_the_draft_starts_from_the_vision_tower_of_the_target(
    tokenizer: Any, tmp_path: Path
) -> None:
    pair = start(tmp_path, tokenizer, [])
    last = weights(pair.draft.model.visual)["merger.mlp.2.weight"]
    copy_vision(pair.target, pair.draft)
    own, other = weights(pair.draft.model.visual), weights(pair.target.model.visual)
    assert torch.equal(own["blocks.0.attn.qkv.weight"], other["blocks.0.attn.qkv.weight"])
    assert torch.equal(own["merger.mlp.2.weight"], last)


def test_only_matrices_decay() -> None:
    module = nn.Linear(4, 3)
    matrices, vectors = fitting.optimizer_for(module).param_groups
    assert matrices["weight_decay"] > 0
    assert matrices["params"] == [module.weight]
    assert vectors["weight_decay"] == 0
    assert vectors["params"] == [module.bias]
