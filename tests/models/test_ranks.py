"""A target cut over two processes, each with a part of every layer."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cli.processes import ROOT, environment
from tests.engine.runs import Run
from tests.models.families import DRAFT, TARGET, write_family
from tests.models.family_checks import frames_for
from vidcap.demo.clips import write_mp4
from vidcap.demo.scenes import sample_scene
from vidcap.engine.kv import KVCache, KVSpec
from vidcap.engine.probe import Needs, Probe
from vidcap.errors import ModelError
from vidcap.models import rank_worker
from vidcap.models.cutting import LAYER_PLAN
from vidcap.models.loading import LoadedPair, load_model, load_pair_folders
from vidcap.models.pair import find_pair
from vidcap.models.passes import CacheName, Change
from vidcap.models.rank_process import OtherRank, RankStart, RankSums, joined
from vidcap.models.rank_worker import Mirror
from vidcap.models.ranks import Ranks
from vidcap.settings import ModelSettings, method_settings

CPU = torch.device("cpu")
QUESTION = "What moves?"
METHODS = (
    method_settings("plain"),
    method_settings("sd-tree"),
    method_settings("sd", prune=0.5, prune_by="attention"),
    method_settings("sd", prune=0.5, prune_by="uv", prefill="parallel"),
    method_settings("sd", prefill_chunk=7),
    method_settings("self", prune=0.5),
    method_settings("sd", viskip=0.5),
)


def write_pair(folder: Path, family: str, **size: Any) -> tuple[Path, Path]:
    target = write_family(folder / "target", family, replace(TARGET, **size), shard_size="100KB")
    return target, write_family(folder / "draft", family, DRAFT, seed=2)


def load_ranks(folders: tuple[Path, Path]) -> LoadedPair:
    names = "+".join(map(str, folders))
    settings = ModelSettings(
        pair=names, device="cpu", dtype="float32", threads=2, tensor_parallel=2
    )
    return load_pair_folders(find_pair(settings, needs_draft=True), settings)


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@torch.inference_mode()
def probed(run: Run) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of the visual tokens, visual mass of the question and its logits."""
    target = run.prefill().target
    ids, prefix = run.target.suffix_ids(QUESTION), target.prefix
    needs = Needs(visual_attention=True, visual_mass=True)
    probe = Probe(needs, prefix.visual_index, text_columns=torch.arange(2))
    hidden = target.fork(ids.shape[1]).append(ids, probe)
    logits = run.target.language.logits(hidden)
    return probe.mean_attention(), probe.mean_mass(ids.shape[1]), logits


def closes(pair: LoadedPair, run: Run) -> None:
    assert pair.ranks is not None
    (other,) = pair.ranks.processes
    pair.ranks.close()
    assert other.wait(30) == 0
    with pytest.raises(ModelError, match=r"the ranks of --tensor-parallel have ended: they were"):
        run.ask(QUESTION, METHODS[0])


def gets_lost(pair: LoadedPair, run: Run) -> None:
    assert pair.ranks is not None
    (other,) = pair.ranks.processes
    prompt = run.prefill()
    other.kill()
    for _ in range(2):
        with pytest.raises(ModelError, match=r"have ended: exit code -9"):
            run.ask(QUESTION, METHODS[0], prompt)


def fails_here(pair: LoadedPair, run: Run) -> None:
    assert pair.ranks is not None
    (other,) = pair.ranks.processes
    prompt = run.prefill()
    layer = pair.target.model.model.language_model.layers[1]  # type: ignore[attr-defined]
    del layer.self_attn.o_proj._parameters["weight"]
    pair.target.language._own._lean = None  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        run.ask(QUESTION, METHODS[0], prompt)
    assert other.wait(30) == -signal.SIGKILL
    with pytest.raises(ModelError, match=r"have ended: a pass failed \(AttributeError\)"):
        run.ask(QUESTION, METHODS[0], prompt)


@pytest.mark.system
@pytest.mark.parametrize(
    ("family", "size", "ends"),
    [
        ("qwen2_vl", {}, gets_lost),
        ("qwen2_5_vl", {"tied": True}, closes),
        ("qwen3_vl", {}, closes),
        ("llava_onevision", {}, fails_here),
    ],
)
def test_two_processes_give_the_tokens_of_one(
    tmp_path: Path,
    one_thread: None,
    family: str,
    size: dict[str, Any],
    ends: Callable[[LoadedPair, Run], None],
) -> None:
    folders = write_pair(tmp_path, family, **size)
    pair = load_ranks(folders)
    whole = load_model(folders[0], CPU, torch.float32)
    inputs = whole.prepare(frames_for(whole, 5), 2.0)
    alone = Run(whole, pair.draft, inputs, max_tokens=12)
    run = Run(pair.target, pair.draft, inputs, max_tokens=12)
    assert run.target.language.kv_spec.kv_heads == 1
    expected = alone.transformers(QUESTION)
    for method in METHODS:
        assert run.ask(QUESTION, method)[0] == expected, method
    for ours, theirs in zip(probed(run), probed(alone), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)
    ends(pair, run)


def test_a_process_that_cannot_start_is_told(
    tmp_path: Path, one_thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = write_pair(tmp_path, "qwen2_vl")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no torch here >&2\nexit 7\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(ModelError, match="rank 1 of --tensor-parallel: exit code 7: no torch here"):
        load_ranks(folders)


def test_ranks_that_do_not_reach_each_other_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nowhere0")
    start = RankStart(0, 1, tmp_path / "ranks", "cpu", tmp_path, torch.float32, "auto", 1)
    with pytest.raises(ModelError, match=r"do not reach each other: .*nowhere0"), joined(start):
        pass
    assert os.environ["GLOO_SOCKET_IFNAME"] == "nowhere0"
    assert not torch.distributed.is_initialized()


class Killed:
    """Another rank that the system has ended."""

    def hear(self) -> None:
        return None

    def last_words(self) -> str:
        return "exit code -9"


def test_a_run_that_waits_for_a_gpu_is_ended(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The main thread of such a run hears of nothing."""
    codes: list[int] = []
    monkeypatch.setattr("vidcap.models.ranks.PATIENCE_S", 0)
    monkeypatch.setattr("vidcap.models.ranks.os._exit", codes.append)
    start = RankStart(0, 1, tmp_path, "cuda:0", tmp_path, torch.bfloat16, "auto", 1)
    ranks = Ranks(start, [])
    folder = ranks.start.meeting.parent
    ranks._watch(Killed())  # type: ignore[arg-type]
    assert codes == [3]
    assert not folder.exists()
    words = "vidcap: error: the ranks of --tensor-parallel have ended: exit code -9\n"
    assert capfd.readouterr().err == words
    ranks.close()
    ranks._watch(Killed())  # type: ignore[arg-type]
    assert codes == [3]


@pytest.mark.parametrize(("joined", "ended"), [(False, [3]), (True, [])])
def test_nobody_waits_for_a_process_that_will_not_join(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, joined: bool, ended: list[int]
) -> None:
    """torch would wait for half an hour; once all have joined, it notices by itself."""
    codes: list[int] = []
    monkeypatch.setattr("vidcap.models.ranks.PATIENCE_S", 0)
    monkeypatch.setattr("vidcap.models.ranks.os._exit", codes.append)
    ranks = Ranks(RankStart(0, 1, tmp_path, "cpu", tmp_path, torch.float32, "auto", 1), [])
    ranks._joined = joined
    ranks._watch(Killed())  # type: ignore[arg-type]
    assert codes == ended
    ranks._others = [Killed()]  # type: ignore[list-item]
    with pytest.raises(ModelError, match="have ended: exit code -9"):
        ranks._await_others()
    ranks._others = []
    ranks.close()


def test_another_rank_tidies_up_behind_the_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(rank_worker, "_PATIENCE_S", 0)
    monkeypatch.setattr("vidcap.models.rank_worker.os._exit", codes.append)
    folder = tmp_path / "vidcap-x"
    folder.mkdir()
    start = RankStart(1, 2, folder / "ranks", "cpu", tmp_path, torch.float32, "auto", 1)
    start.meeting.touch()
    messages: SimpleQueue[object] = SimpleQueue()
    rank_worker._read(io.BytesIO(pickle.dumps(start)), messages)
    assert messages.get() == start
    assert messages.get() is None
    assert codes == [1]
    assert list(tmp_path.iterdir()) == []


def test_another_rank_finds_the_modules_of_the_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$PYTHONPATH" >&2\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(sys, "path", ["", "/own", "/standard"])
    start = RankStart(1, 2, tmp_path / "ranks", "cpu", tmp_path, torch.float32, "auto", 1)
    other = OtherRank(start)
    assert other.last_words() == "exit code 0: /own:/standard"
    other.dismiss(gently=True)


def children(process: subprocess.Popen[bytes]) -> list[int]:
    """Processes that one has started, as Linux lists them."""
    threads = Path(f"/proc/{process.pid}/task").iterdir()
    return [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]


def is_rank(pid: int) -> bool:
    return b"vidcap.models.rank_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()


def has_ended(pid: int, seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.system
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_the_other_process_ends_with_the_first(tmp_path: Path, number: int, code: int) -> None:
    write_pair(tmp_path, "qwen2_5_vl")
    write_mp4(sample_scene(3), tmp_path / "clip.mp4")
    words = ["describe", "-q", "clip.mp4", "--target", "target", "--no-draft", "--device", "cpu"]
    words += ["--tensor-parallel", "2", "--max-frames", "2", "--max-tokens", "4000", "--stream"]
    process = subprocess.Popen(
        [sys.executable, "-m", "vidcap", *words, "--method", "plain"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(ROOT), TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.read(1), process.communicate()[1]
        (other,) = filter(is_rank, children(process))
        # As a terminal does: to all processes at once.
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        errors = process.communicate(timeout=30)[1]
    finally:
        process.kill()
    assert (process.returncode, errors) == (code, b"")
    assert has_ended(other)
    assert not list(tmp_path.glob("vidcap-*"))


class Replaying(RankSums):
    """Does to another set of keys and values at once what is done to the first."""

    def __init__(self, spec: KVSpec):
        super().__init__(1)
        self.mirror = Mirror(spec)
        self.changes: list[str] = []

    def note(self, cache: KVCache, change: str, arguments: tuple[Any, ...]) -> None:
        self.changes.append(change)
        named = [CacheName(id(each)) if isinstance(each, KVCache) else each for each in arguments]
        self.mirror.change(Change(CacheName(id(cache)), change, tuple(named)))

    def twin(self, cache: KVCache) -> KVCache:
        return self.mirror.caches[CacheName(id(cache))]


def test_what_is_done_to_keys_and_values_is_repeated() -> None:
    spec = KVSpec(2, 2, 2, 8, torch.float32, CPU)
    shards = Replaying(spec)
    cache = KVCache(replace(spec, shards=shards), 1, 8)
    twin = shards.twin(cache)

    def fill(seed: int, *caches: KVCache) -> None:
        for each in caches:
            torch.manual_seed(seed)
            for layer in range(2):
                each.write(layer, each.length, *torch.randn(2, 1, 2, 5, 8))

    cache.reserve_prefix(5)
    piece = KVCache(cache.spec, 1, 5)
    fill(1, piece, shards.twin(piece))
    cache.take_piece(piece, 0, 5)
    fork = cache.fork(8)
    fill(2, fork, shards.twin(fork))
    fork.commit([0, 2, 4])
    fork.append_committed(2)
    fork.rewind(4)
    other = KVCache(cache.spec, 1, 8)
    other.gather_prefix(cache, torch.tensor([1, 3]))
    other.copy_committed(fork)
    viewing = KVCache(cache.spec, 1, 8)
    viewing.see_prefix(cache, 3)
    for ours in (cache, fork, other, viewing):
        theirs = shards.twin(ours)
        assert ours.length == theirs.length
        torch.testing.assert_close(ours.prefix, theirs.prefix)
        torch.testing.assert_close(ours.tails, theirs.tails)
    assert twin.prefix_length == 5
    assert fork.length == other.length == 4
    assert set(shards.changes) == {
        "new",
        "reserve_prefix",
        "take_piece",
        "share_prefix",
        "commit",
        "append_committed",
        "rewind",
        "gather_prefix",
        "copy_committed",
        "see_prefix",
    }


def test_the_plan_is_that_of_transformers() -> None:
    from transformers import Qwen2_5_VLTextConfig, Qwen2Config, Qwen2VLTextConfig, Qwen3Config

    for config in (Qwen2Config, Qwen2VLTextConfig, Qwen2_5_VLTextConfig, Qwen3Config):
        # What is replicated in Qwen3 concerns training alone.
        plan = {
            name.removeprefix("layers.*."): style
            for name, style in config.base_model_tp_plan.items()
            if not style.startswith("replicated")
        }
        assert plan == LAYER_PLAN, config
