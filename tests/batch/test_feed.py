from __future__ import annotations

import os
import time

import pytest

from vidcap.batch.feed import ArrivingFeed, KnownFeed, read_lines
from vidcap.batch.jobs import Job, Problem, find_jobs


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def piped(pipe, data: bytes) -> list[str]:
    os.write(pipe[1], data)
    os.close(pipe[1])
    return list(read_lines(pipe[0]))


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a.mp4\nb c.mp4\n", ["a.mp4", "b c.mp4"]),
        (b"a.mp4\r\n\r\nb.mp4", ["a.mp4", "b.mp4"]),
        (b" a.mp4 \n#b.mp4\n", [" a.mp4 ", "#b.mp4"]),
        (b"caf\xe9.mp4\n", [os.fsdecode(b"caf\xe9.mp4")]),
        (b"\n\n  \n", ["  "]),
    ],
)
def test_lines_are_paths_as_they_stand(pipe, data, lines):
    assert piped(pipe, data) == lines


def test_what_has_not_arrived_is_not_waited_for_unless_it_must_be(pipe, tmp_path):
    path = tmp_path / "a.mp4"
    path.touch()
    feed = ArrivingFeed(pipe[0], "list")
    assert feed.poll() is None
    os.write(pipe[1], f"{path}\n{path}\n".encode())
    assert feed.take() == Job(str(path), str(path), "a.mp4")
    deadline = time.monotonic() + 5
    while (entry := feed.poll()) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert entry == Job(str(path), str(path), "a.mp4")
    os.close(pipe[1])
    assert feed.take() is None
    assert feed.take() is None
    assert feed.poll() is None


def test_a_list_that_cannot_be_read_is_a_problem(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    feed = ArrivingFeed(descriptor, "list")
    entry = feed.take()
    assert isinstance(entry, Problem)
    assert (entry.path, entry.error.message) == ("list", "cannot be read: Is a directory")
    assert feed.take() is None
    os.close(descriptor)


def test_known_entries_are_there_at_once_and_counted():
    jobs = [Job(name, name, name) for name in "ab"]
    feed = KnownFeed(iter(jobs))
    assert feed.total == 2
    assert [feed.poll(), feed.take(), feed.poll(), feed.take()] == [*jobs, None, None]


def test_a_folder_gives_jobs_named_by_their_place_in_it(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.mp4").touch()
    assert list(find_jobs(str(tmp_path))) == [
        Job(f"{tmp_path}/a/b.mp4", f"{tmp_path}/a/b.mp4", "a/b.mp4")
    ]
    assert [job.name for job in find_jobs(f"{tmp_path}/a/..")] == ["a/b.mp4"]
    assert [job.name for job in find_jobs("x/none.mp4")] == ["none.mp4"]
