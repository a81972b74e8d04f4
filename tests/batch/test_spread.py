"""Videos shared out to workers: who gets what, what is written, what becomes of the dead."""

from __future__ import annotations

import json
import pickle
from collections import Counter

import pytest

from tests.cli.fakes import FakeCaptioner
from vidcap.batch.feed import KnownFeed
from vidcap.batch.jobs import Job, find_jobs
from vidcap.batch.line_forms import line_form
from vidcap.batch.out_dir import FolderSink
from vidcap.batch.out_file import FileSink
from vidcap.batch.requests import Request
from vidcap.batch.spread import SpreadBatch
from vidcap.batch.workers import Outcome, Worker, WorkerDiedError
from vidcap.cli.signals import Interrupts
from vidcap.errors import InputError, ModelError
from vidcap.output.record import SCHEMA_VERSION

REQUESTS = [Request("ask", "What moves?", "What moves?"), Request("ask", "Who?", "Who?")]


class Host:
    """Keeps what it is told."""

    def __init__(self):
        self.told = []

    def __getattr__(self, name):
        return lambda *words: self.told.append((name, *words))


class InlinePool:
    """Workers in this process: all load before one works, the last video is the first that is done.

    Args:
        deaths: how often the worker of each video dies over it, by name.
        load_deaths: how many workers die while they load.
    """

    def __init__(self, size=2, deaths=(), load_deaths=0, make=FakeCaptioner):
        self.size, self._make = size, make
        self._deaths, self._load_deaths = Counter(dict(deaths)), load_deaths
        self._work = {}
        self.started, self.closed, self.most = 0, False, 0

    def start(self):
        self.started += 1
        worker = Worker(self._make)
        return worker, self._ticket(worker.load, died=self.started <= self._load_deaths)

    def submit(self, worker, job, requests):
        # Everything crosses a border.
        job, requests = pickle.loads(pickle.dumps((job, requests)))
        self._deaths[job.name] -= 1
        return self._ticket(
            lambda: worker.answer(job, requests), died=self._deaths[job.name] >= 0, work=True
        )

    def _ticket(self, run, died, work=False):
        ticket = (work, len(self._work), died)
        self._work[ticket] = run
        return ticket

    def wait(self, tickets, seconds):
        self.most = max(self.most, sum(ticket[0] for ticket in tickets))
        return [min(tickets, key=lambda ticket: (ticket[0], -ticket[1]))]

    def outcome(self, ticket):
        if ticket[2]:
            raise WorkerDiedError("killed")
        return pickle.loads(pickle.dumps(self._work[ticket]()))

    def close(self):
        self.closed = True


def run(folder, sink, pool, signal=None):
    host = Host()
    batch = SpreadBatch(FakeCaptioner(), sink, signal or Interrupts(), host, lambda: pool)
    try:
        tally = batch.run(KnownFeed(find_jobs(str(folder))), REQUESTS)
    finally:
        sink.close()
    return tally, host.told


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in "abcd":
        (folder / f"{name}.mp4").write_text(name)
    return folder


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.jsonl"


def file_sink(out):
    return FileSink(out, line_form("jsonl"))


def records(out):
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


def test_every_video_is_answered_once_by_as_many_workers_as_there_are(folder, out):
    pool = InlinePool(size=3)
    tally, told = run(folder, file_sink(out), pool)
    assert (tally.answered, tally.failed, tally.skipped) == (4, 0, 0)
    assert (pool.started, pool.most, pool.closed) == (3, 3, True)
    found = records(out)
    assert Counter(record["path"] for record in found) == {
        str(folder / f"{name}.mp4"): 2 for name in "abcd"
    }
    # Questions about one video stand together, in their order.
    assert [record["question"] for record in found] == ["What moves?", "Who?"] * 4
    assert all(record["schema_version"] == SCHEMA_VERSION for record in found)
    assert [what for what, *_ in told if what in ("loading", "loaded")] == ["loading", "loaded"]
    assert sum(what == "finished" for what, *_ in told) == 4


def test_no_more_workers_start_than_there_are_videos(folder, out):
    pool = InlinePool(size=64)
    run(folder, file_sink(out), pool)
    assert pool.started == 4


def test_a_second_run_opens_no_pool(folder, out):
    run(folder, file_sink(out), InlinePool())
    before = out.read_bytes()
    tally, _ = run(folder, file_sink(out), None)
    assert (tally.skipped, out.read_bytes()) == (4, before)
    (folder / "b.mp4").write_text("another cut")
    pool = InlinePool()
    tally, _ = run(folder, file_sink(out), pool)
    assert (tally.skipped, tally.answered, pool.started) == (3, 1, 1)


def test_a_folder_of_answers_is_the_same_as_without_workers(folder, tmp_path):
    tally, _ = run(folder, FolderSink(tmp_path / "o", "json", questions=2), InlinePool())
    assert tally.answered == 4
    names = sorted(path.name for path in (tmp_path / "o").glob("*.json"))
    assert names == [f"{name}.mp4.json" for name in "abcd"]
    tally, _ = run(folder, FolderSink(tmp_path / "o", "json", questions=2), None)
    assert tally.skipped == 4


def test_a_worker_that_dies_is_replaced_and_its_video_done_again(folder, out):
    pool = InlinePool(size=1, deaths={"b.mp4": 1})
    tally, _ = run(folder, file_sink(out), pool)
    assert (tally.answered, tally.failed, pool.started) == (4, 0, 2)
    warned = {record["path"] for record in records(out) if record["warnings"]}
    assert warned == {str(folder / "b.mp4")}
    assert [record["warnings"] for record in records(out) if record["warnings"]] == [
        ["its worker died, it was done again"]
    ] * 2


def test_a_video_that_kills_two_workers_fails_and_the_others_are_done(folder, out):
    pool = InlinePool(size=2, deaths={"b.mp4": 9})
    tally, told = run(folder, file_sink(out), pool)
    assert (tally.answered, tally.failed) == (3, 1)
    failed = [record for record in records(out) if record["status"] == "error"]
    assert {record["path"] for record in failed} == {str(folder / "b.mp4")}
    assert {record["error"]["message"] for record in failed} == {"two workers died over it"}
    assert len(records(out)) == 8
    assert sum(what == "failed" for what, *_ in told) == 1


def test_one_worker_may_die_while_it_loads(folder, out):
    pool = InlinePool(size=1, load_deaths=1)
    tally, _ = run(folder, file_sink(out), pool)
    assert (tally.answered, pool.started) == (4, 2)


def test_workers_that_all_die_while_they_load_end_the_run(folder, out):
    pool = InlinePool(size=1, load_deaths=9)
    with pytest.raises(ModelError, match="die while they load"):
        run(folder, file_sink(out), pool)
    assert (pool.started, pool.closed) == (2, True)


def test_a_video_that_is_none_costs_an_error_record(folder, out):
    (folder / "c-broken.mp4").touch()
    tally, told = run(folder, file_sink(out), InlinePool())
    assert (tally.answered, tally.failed) == (4, 1)
    failed = [record for record in records(out) if record["status"] == "error"]
    assert [record["error"]["message"] for record in failed] == ["no video stream (audio only)"] * 2
    ((_, path, error),) = [words for words in told if words[0] == "failed"]
    assert path == str(folder / "c-broken.mp4")
    assert isinstance(error, InputError)
    # --debug shows where in the worker it happened.
    assert "in check" in str(error.__cause__)


def test_no_pool_is_opened_for_videos_that_are_none(tmp_path, out):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "broken.mp4").touch()
    tally, _ = run(folder, file_sink(out), None)
    assert tally.failed == 1
    assert len(records(out)) == 2


def test_half_an_answer_is_kept_and_only_the_rest_fails(folder, out):
    """The second question about this video meets a bug."""
    (folder / "bug.mp4").touch()
    for path in folder.glob("?.mp4"):
        path.unlink()
    tally, _ = run(folder, file_sink(out), InlinePool())
    assert tally.failed == 1
    assert [record["status"] for record in records(out)] == ["error", "error"]
    assert "internal error: KeyError" in records(out)[0]["error"]["message"]


def test_what_would_meet_every_video_ends_the_run_and_keeps_what_is_done(folder, out):
    (folder / "z-oom.mp4").touch()
    pool = InlinePool(size=1)
    with pytest.raises(ModelError, match="out of memory at one frame"):
        run(folder, file_sink(out), pool)
    assert len(records(out)) == 8
    assert pool.closed


def test_a_pair_that_cannot_be_loaded_ends_the_run(folder, out):
    def make():
        raise ModelError("the weights are broken", hint="pull them again")

    with pytest.raises(ModelError, match="the weights are broken") as caught:
        run(folder, file_sink(out), InlinePool(make=make))
    assert caught.value.hint == "pull them again"


def test_an_error_in_the_worker_names_a_machine_that_is_not_this_one(folder, out):
    class Elsewhere(InlinePool):
        def outcome(self, ticket):
            return Outcome(error=ModelError("no model"), ends_run=True, host="node-7")

    with pytest.raises(ModelError) as caught:
        run(folder, file_sink(out), Elsewhere())
    assert caught.value.message == "a worker on node-7: no model"


def test_ctrl_c_ends_the_run_after_what_is_done_is_written(folder, out):
    class Pressed(Interrupts):
        def should_stop(self):
            return out.stat().st_size > 0

    pool = InlinePool(size=1)
    tally, _ = run(folder, file_sink(out), pool, Pressed())
    assert (tally.answered, len(records(out)), pool.closed) == (1, 2, True)


def test_paths_stay_as_they_were_given_and_workers_get_whole_ones(folder, out, monkeypatch):
    monkeypatch.chdir(folder)
    seen = []

    class Noting(InlinePool):
        def submit(self, worker, job, requests):
            seen.append(job)
            return super().submit(worker, job, requests)

    sink = file_sink(out)
    batch = SpreadBatch(FakeCaptioner(), sink, Interrupts(), Host(), Noting)
    batch.run(KnownFeed(find_jobs("a.mp4")), REQUESTS[:1])
    sink.close()
    assert seen == [Job("a.mp4", str(folder / "a.mp4"), "a.mp4")]
    assert records(out)[0]["path"] == "a.mp4"
