"""The draft's prefill beside the target's: the same tokens, an earlier start, one thread budget."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.engine.runs import PLAIN, Run
from tests.tiny import random_frames
from vidcap.engine.decoder import Decoder
from vidcap.engine.draft import PairDrafter, StartupDrafter
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.probe import Needs, Probe
from vidcap.engine.prune import UVScorer
from vidcap.engine.prune.score import PrefillProbes
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.schedule import InlineLane, OpenedVideo, ThreadLane
from vidcap.engine.stats import Stats
from vidcap.engine.tree import TreeShape
from vidcap.engine.verify import Accepted
from vidcap.models.loading import load_model
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.settings import METHODS, SpeculationSettings, method_settings
from vidcap.trace import Trace

CPU = torch.device("cpu")
QUESTION = "What moves?"
PARALLEL = METHODS["parallelvlm"]
BESIDE: dict[str, SpeculationSettings] = {
    "uv": PARALLEL,
    "attention": replace(PARALLEL, prune_by="attention", prune_select="two-stage"),
    "uniform tree": method_settings(
        "sd-tree", prune=0.7, prune_by="uniform", prefill="parallel", kept_positions="compact"
    ),
    "text": method_settings("sd", prune=1.0, prefill="parallel", lookup_branch=4),
    "whole": method_settings("sd", tree="dynamic", prefill="parallel"),
    "auto": method_settings("auto", prefill="parallel"),
    "loose": method_settings("lvspec", prune_by="uv", prefill="parallel"),
    "skip": method_settings("sd", prefill="parallel", viskip=0.0),
}


@pytest.fixture(scope="module")
def models(tiny_target: Path, tiny_draft: Path, tiny_perturbed: Path) -> dict[str, Qwen25VL]:
    folders = {
        "target": tiny_target,
        "random": tiny_draft,
        "perturbed": tiny_perturbed,
        "copy": tiny_target,
    }
    return {name: load_model(path, CPU, torch.float32) for name, path in folders.items()}


def make_run(models: dict[str, Qwen25VL], draft: str = "copy", **parts: object) -> Run:
    inputs = models["target"].prepare(random_frames(8, 56, 112), fps=2.0)
    lane = partial(ThreadLane, [CPU])
    return Run(models["target"], models[draft], inputs, **{"make_lane": lane, **parts})


class NotingLane(InlineLane):
    """Notes how many layers of the target had run when work was handed over."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = 0
        self.submitted: list[int] = []

    def submit(self, work: Callable[[], object]) -> Future:
        self.submitted.append(self.layers)
        return super().submit(work)

    def on_layer(self, layer: int) -> None:
        self.layers = max(self.layers, layer + 1)


class EagerLane(InlineLane):
    """Is always ahead: runs what it gets at once."""

    def submit(self, work: Callable[[], object]) -> Future:
        future = super().submit(work)
        self.result(future)
        return future

    def is_ahead(self) -> bool:
        return True


@torch.inference_mode()
def test_one_pass_over_prefix_and_question_equals_two(models: dict[str, Qwen25VL]) -> None:
    target, layer = models["target"], 2
    prefix = target.encode(target.prepare(random_frames(8, 56, 112), 2.0), "reference")
    suffix = target.suffix_ids(QUESTION)
    scorer = UVScorer(layer)
    probes = [
        [Probe(needs, prefix.visual_index) for needs in (scorer.prefix_needs, scorer.suffix_needs)]
        for _ in range(2)
    ]
    two = Decoder.prefill(target.language, prefix, probes[0][0]).fork(64)
    two.append(suffix, probes[0][1])
    whole, question = probes[1]
    whole.question, whole.prefix_rows = question, prefix.length
    one = Decoder.prefill_with_question(target.language, prefix, suffix, 64, whole)
    assert one.kv.length == two.kv.length == suffix.shape[1]
    close = partial(torch.testing.assert_close, atol=1e-5, rtol=1e-4)
    close(one.last_hidden, two.last_hidden)
    close(one.kv.tails[0], two.kv.tails[0])
    for got, expected in zip(one.kv.prefix, two.kv.prefix, strict=True):
        close(got, expected)
    scores = [scorer.score(PrefillProbes(*pair)) for pair in probes]
    close(scores[1], scores[0])
    close(one.append(torch.tensor([[70, 71]])), two.append(torch.tensor([[70, 71]])))


@torch.inference_mode()
def test_one_pass_hands_over_the_states_of_visual_tokens(models: dict[str, Qwen25VL]) -> None:
    target = models["target"]
    prefix = target.encode(target.prepare(random_frames(4), 2.0), "reference")
    needs = Needs(visual_output=True)
    one, two = (Probe(needs, prefix.visual_index) for _ in range(2))
    Decoder.prefill_with_question(target.language, prefix, torch.tensor([[70, 71]]), 64, one)
    Decoder.prefill(target.language, prefix, two)
    torch.testing.assert_close(one.visual_output, two.visual_output, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("draft", ["random", "perturbed", "copy"])
def test_every_method_beside_gives_the_tokens_of_generate(
    models: dict[str, Qwen25VL], draft: str
) -> None:
    run = make_run(models, draft, max_tokens=16)
    expected = run.transformers(QUESTION)
    for name, method in BESIDE.items():
        if method.verify == "strict":
            assert run.ask(QUESTION, method)[0] == expected, name
    for lane in (InlineLane, EagerLane):
        run.make_lane = lane
        assert run.ask(QUESTION, PARALLEL)[0] == expected


@pytest.mark.parametrize("name", BESIDE)
def test_the_order_of_events_changes_no_token(models: dict[str, Qwen25VL], name: str) -> None:
    """Later questions too, which go the sequential way; loose methods and samples included."""
    run, method = make_run(models, "perturbed", max_tokens=12), BESIDE[name]
    behind = replace(method, prefill="sequential")
    for sampling in (None, SamplingSettings(0.8, seed=5)):
        run.sampling = sampling
        if sampling is not None and method.tree in ("auto", "dynamic"):
            continue
        prompt, generation = run.start_parallel(QUESTION, method)
        tokens = [token for new in generation for token in new]
        other = run.prefill(behind)
        assert tokens == run.ask(QUESTION, behind, other)[0]
        later = "How many circles are there?"
        assert run.ask(later, method, prompt)[0] == run.ask(later, behind, other)[0]


@pytest.mark.parametrize(
    ("name", "layers"), [("uv", 1), ("attention", None), ("uniform tree", 0), ("text", 0)]
)
def test_the_draft_starts_as_soon_as_its_scores_exist(
    models: dict[str, Qwen25VL], name: str, layers: int | None
) -> None:
    lanes: list[NotingLane] = []
    run = make_run(models, make_lane=lambda: lanes.append(NotingLane()) or lanes[-1])
    run.start_parallel(QUESTION, BESIDE[name])
    depth = models["target"].language.kv_spec.layers
    vision = [] if BESIDE[name].prune == 1 else [0]
    assert lanes[0].submitted == [*vision, depth if layers is None else layers]


@torch.inference_mode()
def startup(model: Qwen25VL) -> tuple[StartupDrafter, PairDrafter, int]:
    """A drafter with a window, one without on a decoder of its own, and the draft's guess."""
    prefix = model.encode(model.prepare(random_frames(4), 2.0), "reference")
    suffix = model.suffix_ids(QUESTION)
    ids = torch.cat([prefix.ids, suffix], dim=1)
    rules = LogitsSettings(model.rules.vocab_size, model.rules.placeholder_ids, 1.2)
    stack = LogitsStack(rules, ids)
    base = Decoder.prefill(model.language, prefix)
    decoders = [base.fork(100), base.fork(100)]
    for decoder in decoders:
        hidden = decoder.append(suffix)
    makes = [partial(PairDrafter, one, TreeShape.chain(3), stack) for one in decoders]
    alone = torch.ones(1, 1, 1, dtype=torch.bool)
    logits = model.language.logits(hidden[:, -1:])
    guess = int(stack.process(logits, suffix[:, -1:], alone).argmax())
    return StartupDrafter(decoders[0], makes[0], stack), makes[1](), guess


def rounds(drafter: StartupDrafter | PairDrafter, root: int) -> list[Tensor]:
    """The trees of two rounds, of which the first is accepted up to its second node."""
    first = drafter.propose(torch.tensor([[root]]))
    token = int(first.tree.tokens[0, 1])
    drafter.commit(first, Accepted((0, 1), (token, 90)))
    return [first.tree.tokens, drafter.propose(torch.tensor([[90]])).tree.tokens]


@torch.inference_mode()
@pytest.mark.parametrize("right", [True, False])
def test_a_startup_window_is_what_would_be_drafted_later(
    models: dict[str, Qwen25VL], right: bool
) -> None:
    early, late, guess = startup(models["target"])
    root = guess if right else 100 + (guess == 100)
    calls: list[int] = []
    text = models["target"].model.model.language_model
    handle = text.embed_tokens.register_forward_pre_hook(lambda *_: calls.append(1))
    got = rounds(early, root)
    spent = len(calls)
    expected = rounds(late, root)
    handle.remove()
    for ours, theirs in zip(got, expected, strict=True):
        assert torch.equal(ours, theirs)
    # A round of three drafts takes three calls: a right guess has saved the first round's.
    assert spent == len(calls) - spent - (3 if right else 0)


@torch.inference_mode()
def test_a_skipped_round_drops_the_startup_window(models: dict[str, Qwen25VL]) -> None:
    early, late, guess = startup(models["target"])
    for drafter in (early, late):
        drafter.skip(torch.tensor([[guess]]), Accepted((0,), (95,)))
    assert all(map(torch.equal, rounds(early, 95), rounds(late, 95)))


def test_a_copy_of_the_target_has_its_first_window_accepted(models: dict[str, Qwen25VL]) -> None:
    """The window is of use: the first round runs no draft."""
    run = make_run(models, "copy", max_tokens=13, make_lane=EagerLane)
    _, generation = run.start_parallel(QUESTION, method_settings("sd", prefill="parallel"))
    calls: list[int] = []
    text = models["copy"].model.model.language_model
    handle = text.embed_tokens.register_forward_pre_hook(lambda *_: calls.append(1))
    spent = [(len(tokens), len(calls)) for tokens in generation]
    handle.remove()
    assert spent == [(1, 0), (6, 0), (6, 5)]


def test_questions_share_one_vision_call_per_model(models: dict[str, Qwen25VL]) -> None:
    run, calls = make_run(models, "random"), []
    towers = [models[name].model.model.visual for name in ("target", "random")]
    handles = [
        tower.register_forward_pre_hook(lambda *_, tower=tower: calls.append(id(tower)))
        for tower in towers
    ]
    opened = OpenedVideo(*run.jobs(), PARALLEL, Stats())
    assert not calls
    answers = [
        [token for new in opened.start(run.request(text), Stats()) for token in new]
        for text in (QUESTION, "How many?", QUESTION)
    ]
    for handle in handles:
        handle.remove()
    assert sorted(calls) == sorted(map(id, towers))
    assert answers[0] == answers[2] == run.ask(QUESTION, PLAIN)[0]
    assert answers[1] == run.ask("How many?", PLAIN)[0]
    assert opened.prompt.target.kv.length == 0


def test_a_video_can_be_used_before_its_first_question(models: dict[str, Qwen25VL]) -> None:
    run = make_run(models)
    opened = OpenedVideo(*run.jobs(), PARALLEL, Stats())
    assert opened.prompt is opened.prompt
    tokens = [token for new in opened.start(run.request(QUESTION), Stats()) for token in new]
    assert tokens == run.ask(QUESTION, PLAIN)[0]


def lanes_at_work() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "draft"]


@contextmanager
def no_lane_left() -> Iterator[None]:
    before = lanes_at_work()
    yield
    for thread in lanes_at_work():
        if thread not in before:
            thread.join(5)
    assert set(lanes_at_work()) <= set(before)


def fail(*_: object) -> None:
    raise RuntimeError("the model is gone")


@pytest.mark.parametrize("broken", ["target", "random"])
@pytest.mark.parametrize("part", ["visual", "language_model"])
def test_what_fails_is_raised_and_no_thread_stays(
    models: dict[str, Qwen25VL], broken: str, part: str
) -> None:
    run = make_run(models, "random", max_tokens=6)
    handle = getattr(models[broken].model.model, part).register_forward_pre_hook(fail)
    with no_lane_left(), pytest.raises(RuntimeError, match="the model is gone"):
        run.ask(QUESTION, PARALLEL)
    handle.remove()
    with no_lane_left():
        assert run.ask(QUESTION, PARALLEL)[0] == run.ask(QUESTION, PLAIN)[0]


def test_an_answer_of_one_token_leaves_no_thread(models: dict[str, Qwen25VL]) -> None:
    run = make_run(models, max_tokens=1)
    with no_lane_left():
        assert len(run.ask(QUESTION, PARALLEL)[0]) == 1


@pytest.mark.parametrize("startup", ["on", "off"])
def test_a_window_of_drafts_is_ready_before_the_target_is(
    models: dict[str, Qwen25VL], startup: str
) -> None:
    """The last layer of the target is slow, UV scores are there behind the first one."""
    run, stats = make_run(models, "random", max_tokens=4), Stats(trace=Trace())
    layer = models["target"].model.model.language_model.layers[-1]
    handle = layer.register_forward_pre_hook(lambda *_: time.sleep(0.5) if not done else None)
    done: list[bool] = []
    _, generation = run.start_parallel(QUESTION, replace(PARALLEL, startup=startup), stats)
    done.append(True)
    tokens = [token for new in generation for token in new]
    handle.remove()
    assert tokens == run.ask(QUESTION, PLAIN)[0]
    events = {event["name"]: event for event in stats.trace.chrome()["traceEvents"]}
    target, draft = events["target prefill"], events["draft prefill"]
    assert target["ts"] < draft["ts"]
    assert draft["ts"] + draft["dur"] < target["ts"] + target["dur"]
    assert ("startup window" in events) == (startup == "on")
    if startup == "on":
        window = events["startup window"]
        assert window["ts"] + window["dur"] < target["ts"] + target["dur"]


def test_the_stages_overlap_and_the_trace_shows_it(models: dict[str, Qwen25VL]) -> None:
    run, stats = make_run(models, "random", max_tokens=4), Stats(trace=Trace())
    towers = [models[name].model.model.visual for name in ("target", "random")]
    handles = [tower.register_forward_pre_hook(lambda *_: time.sleep(0.2)) for tower in towers]
    _, generation = run.start_parallel(QUESTION, PARALLEL, stats)
    list(generation)
    for handle in handles:
        handle.remove()
    assert stats.overlap_s > 0.15
    events = {event["name"]: event for event in stats.trace.chrome()["traceEvents"]}
    one, two = events["target vision"], events["draft vision"]
    assert one["tid"] != two["tid"]
    assert two["ts"] < one["ts"] + one["dur"]
    assert one["ts"] < two["ts"] + two["dur"]
    assert {"target prefill", "draft prefill", "draft", "verify", "commit"} <= set(events)
