"""The training recipe on tiny models: what it draws, how it goes on, what it leaves behind."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText

from vidcap.demo import fit as fitting
from vidcap.demo.batches import (
    FIRST_TRAINING_SEED,
    HELD_OUT_SEED,
    TEXT_ROWS,
    Batch,
    Batches,
    buckets,
    make_batch,
)
from vidcap.demo.checkpoint import ModelShape, adopt_tower, adopt_weights, build_model
from vidcap.demo.clips import LAST_SEED
from vidcap.demo.corpus import tokenizer_texts
from vidcap.demo.degraded import clip, compression_noise
from vidcap.demo.encoding import Encoder
from vidcap.demo.fit import Clock, Log, Run, Stage, fit
from vidcap.demo.losses import FACT_WEIGHT, label_loss, likeness, word_weights
from vidcap.demo.optimizer import Optimizer
from vidcap.demo.scenes import FIRST_WORLD, frame_times, sample_scene, token_labels, truth
from vidcap.demo.score import score_caption
from vidcap.demo.states import GROUNDS, state_labels
from vidcap.demo.tokenizer import train_tokenizer
from vidcap.demo.trainer import Pair, train
from vidcap.demo.world import BACKGROUND_COLOURS, RICH_WORLD

TARGET = ModelShape(2, 64, 64, 2, mrope_section=(4, 6, 6), vision_layers=1, vision_hidden=32)
TARGET = replace(TARGET, vision_heads=2, vision_intermediate=32)
DRAFT = replace(TARGET, layers=1, hidden=32, heads=1)
TINY = replace(RICH_WORLD, lengths=((112, 112, 4.0, 1.0), (140, 112, 5.0, 1.0)))
STAGES = {
    "vision": Stage("vision", steps=3, clips=2, warmup=1, check_every=2),
    "target": Stage("target", steps=3, clips=2, warmup=1, check_every=3),
    "long": Stage("long", steps=2, clips=2, warmup=1, check_every=9, worlds=((TINY, 1.0),)),
    "answers": Stage("answers", steps=2, clips=2, warmup=1, check_every=9, practice=4),
    "events": Stage("events", steps=2, clips=2, warmup=1, check_every=9, keep_tower=True),
    "draft": Stage("draft", steps=3, clips=2, warmup=1, check_every=3),
    "match": Stage("match", steps=2, clips=2, warmup=1, check_every=3),
}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(tokenizer_texts(40), 900)


@pytest.fixture(scope="module")
def encoder(tokenizer: Any) -> Encoder:
    return Encoder(tokenizer)


def start(out: Path, tokenizer: Any, lines: list[str], *, resume: bool = False) -> Pair:
    run = Run(out, Encoder(tokenizer), 0, torch.device("cpu"), None, resume, Log(lines.append))
    shapes, layers = (TARGET, DRAFT), (0, 0)
    return Pair(run, tokenizer, compiled=False, shapes=shapes, stages=STAGES, layers=layers)


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
    answers, events = (
        torch.load(tmp_path / f"{name}.pt", weights_only=True)["module"]
        for name in ("answers", "events")
    )
    name = "model.lm_head.weight"
    assert not torch.equal(answers[name], events[name])
    assert torch.equal(pair.target.lm_head.weight.detach(), events[name])
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
        fit(cut.run, STAGES["vision"], cut.parts["vision"], loss_of, lambda: "")
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
    forward, optimizer = pair.forward(pair.target), Optimizer(module)
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
    covered = {one[:3] for part, _ in parts for one in part.combinations()}
    assert covered == {one[:3] for one in FIRST_WORLD.combinations()}


def test_long_clips_make_small_batches(encoder: Encoder) -> None:
    long = replace(RICH_WORLD, lengths=((224, 224, 10.0, 1.0),))
    drawn = Batches(encoder, 0, 8, 1, worlds=((long, 1.0),), rows=2 * (640 + TEXT_ROWS))[0]
    assert len(drawn.scenes) == 2
    assert drawn.labels["second"].shape == (2, 640)
    assert drawn.labels["second"][0].unique().tolist() == list(range(10))


def test_some_batches_practise_and_the_others_are_as_ever(tokenizer: Any, encoder: Encoder) -> None:
    """A stage that practises has batches of short questions alone beside the usual ones."""
    drawn = Batches(encoder, 0, 2, 12, worlds=((TINY, 1.0),), rows=1400, practice=12)
    captions = [_first_answer(tokenizer, drawn[step]) for step in range(12)]
    usual = [len(words) > 40 for words in captions]
    assert 0 < sum(usual) < 12
    counts = [int(drawn[step].texts.max()) for step in range(12) if not usual[step]]
    assert max(counts) > 6


@pytest.mark.parametrize(("share", "usual"), [(0.0, 6), (1.0, 0)])
def test_the_share_of_batches_that_practise(
    tokenizer: Any, encoder: Encoder, share: float, usual: int
) -> None:
    options: dict[str, Any] = {"rows": 1400, "practice": 12, "practice_share": share}
    drawn = Batches(encoder, 0, 1, 6, worlds=((TINY, 1.0),), **options)
    assert sum(len(_first_answer(tokenizer, drawn[step])) > 40 for step in range(6)) == usual


def _first_answer(tokenizer: Any, batch: Batch) -> list[str]:
    row = batch.targets[0][(batch.texts[0] == 1) & (batch.targets[0] >= 0)]
    return str(tokenizer.decode(row)).split()


def test_states_tell_objects_with_a_history_apart() -> None:
    world = replace(RICH_WORLD, event_kinds=("appears", "changes colour"), event_counts=(0, 1.0))
    seen = set()
    for seed in range(12):
        scene = sample_scene(FIRST_TRAINING_SEED + seed, world)
        facts, colours = truth(scene), token_labels(scene, frame_times(scene))["colour"]
        states = state_labels(facts, colours)
        histories, since = states["history"], states["since"]
        assert ((histories > 0) == (colours > 0)).all()
        assert ((since > 0) == (histories > 1)).all()
        for event in facts["events"]:
            first = int(event["time_s"])
            if event["kind"] == "changes colour":
                assert not (histories[:first] == 3).any()
            seconds = {round(event["time_s"]) for event in facts["events"]}
            assert set(np.unique(since)[1:].tolist()) <= {second + 1 for second in seconds}
            seen.add((event["kind"], *np.unique(histories)[1:].tolist()))
    assert {kind for kind, *_ in seen} == {"appears", "changes colour"}
    assert {state for _, *states in seen for state in states} == {1, 2, 3}


def test_states_tell_the_background() -> None:
    palette, colours, seen = list(BACKGROUND_COLOURS), np.zeros((2, 4, 4), np.int16), set()
    for seed in range(48):
        facts = truth(sample_scene(FIRST_TRAINING_SEED + seed, RICH_WORLD))
        states = state_labels(facts, colours)
        said = {key: np.unique(states[key]).tolist() for key in ("ground", "first", "last")}
        assert all(len(classes) == 1 for classes in said.values())
        background = facts["background"]
        assert GROUNDS[said["ground"][0]] == (background["axis"] or background["kind"])
        named = [palette[said[key][0]] for key in ("first", "last")]
        if background["kind"] == "checker":
            assert sorted(named) == sorted(background["colours"])
        else:
            assert named == [background["colours"][0], background["colours"][-1]]
        seen.add(said["ground"][0])
    assert len(seen) == len(GROUNDS)


def test_a_pair_may_start_from_another_with_other_words(tokenizer: Any, tmp_path: Path) -> None:
    pair = start(tmp_path, tokenizer, [])
    pair.save()
    other = train_tokenizer(["a quite different text about nothing in particular"] * 30, 420)
    model = build_model(TARGET, other, 9)
    adopt_weights(model, other, tmp_path / "target")
    old = pair.target.state_dict()["model.language_model.embed_tokens.weight"].bfloat16().float()
    new = model.state_dict()["model.language_model.embed_tokens.weight"]
    known = tokenizer.get_vocab()
    for token, row in other.get_vocab().items():
        if token in known:
            assert torch.equal(new[row], old[known[token]])
    assert torch.equal(
        model.model.language_model.norm.weight, pair.target.model.language_model.norm.weight
    )


def test_clips_can_be_made_without_pyav() -> None:
    """On a machine that has none, in a process of its own."""
    code = """
import sys
sys.modules["av"] = None
from vidcap.demo.batches import Batches
from vidcap.demo.encoding import Encoder
from vidcap.demo.corpus import tokenizer_texts
from vidcap.demo.tokenizer import train_tokenizer
encoder = Encoder(train_tokenizer(tokenizer_texts(5), 500))
one = Batches(encoder, 0, 2, 1, codec=False)[0]
assert one.frames.float().std() > 1
"""
    root = Path(fitting.__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)


def test_noise_changes_frames_a_little() -> None:
    scene = sample_scene(FIRST_TRAINING_SEED)
    frames = clip(scene, np.random.default_rng(0), codec=False)
    noisy = compression_noise(frames, np.random.default_rng(1))
    off = np.abs(noisy.astype(int) - frames)
    assert noisy.shape == frames.shape
    assert 0.2 < off.mean() < 8


def test_words_of_facts_weigh_more(tokenizer: Any) -> None:
    weights = word_weights(tokenizer, len(tokenizer))
    red, the = tokenizer(" red").input_ids, tokenizer(" the").input_ids
    assert len(red) == len(the) == 1
    assert weights[red[0]] == FACT_WEIGHT
    assert weights[the[0]] == 1


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


@pytest.mark.parametrize("merger", [False, True])
def test_the_draft_has_the_vision_tower_of_the_target(
    tokenizer: Any, tmp_path: Path, merger: bool
) -> None:
    pair = start(tmp_path, tokenizer, [])
    before = weights(pair.draft.model.visual)
    adopt_tower(pair.target, pair.draft, merger=merger)
    own, other = weights(pair.draft.model.visual), weights(pair.target.model.visual)
    learns = {name for name, p in pair.draft.model.visual.named_parameters() if p.requires_grad}
    assert learns == {name for name in own if name.startswith("merger")}
    for name in own:
        trunk = not name.startswith("merger")
        taken = trunk or (merger and own[name].shape == other[name].shape)
        assert torch.equal(own[name], other[name] if taken else before[name])


def test_the_tower_stays_while_the_draft_learns(tokenizer: Any, tmp_path: Path) -> None:
    pair = start(tmp_path, tokenizer, [])
    train(pair, "draft")
    train(pair, "match")
    own, other = weights(pair.draft.model.visual), weights(pair.target.model.visual)
    equal = {name for name in own if own[name].shape == other[name].shape}
    changed = {name for name in equal if not torch.equal(own[name], other[name])}
    assert changed == {name for name in equal if name.startswith("merger")}


def test_a_draft_is_held_against_its_targets_choices_and_probabilities() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, other = (torch.randn(6, 5, generator=generator) for _ in range(2))
    even, uneven = torch.ones(5), torch.tensor([1.0, 3.0, 1.0, 2.0, 1.0])
    assert likeness(logits + 3, logits, even)[0].abs() < 1e-6
    own, wanted = logits.softmax(-1), other.softmax(-1)
    far = (wanted * (wanted / own).log()).sum(-1)
    unlike = -own.gather(1, other.argmax(-1, keepdim=True)).log()[:, 0]
    torch.testing.assert_close(likeness(logits, other, even), (far.mean(), unlike.mean()))
    shares = uneven[other.argmax(-1)]
    shares = shares / shares.sum()
    expected = (far * shares).sum(), (unlike * shares).sum()
    torch.testing.assert_close(likeness(logits, other, uneven), expected)
