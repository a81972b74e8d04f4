"""Batches on a real Ray cluster of this machine: workers and drivers killed, answers as ever."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import jsonschema
import pytest

from tests.cli.processes import ROOT, environment, events, numbered_videos, started, wait_for
from vidcap import Captioner
from vidcap.demo.clips import write_mp4
from vidcap.demo.scenes import sample_scene
from vidcap.output.record import record_schema
from vidcap.settings import (
    DEFAULT_DESCRIBE_PROMPT,
    GenerationSettings,
    ModelSettings,
    VideoSettings,
    method_settings,
)

pytestmark = pytest.mark.system

COUNT = 8
#: A cluster takes its time to start.
STARTED_S = 180.0


@pytest.fixture
def folder(tmp_path):
    return numbered_videos(tmp_path / "videos", COUNT)


def valid(text: str) -> list[dict]:
    found = [json.loads(line) for line in text.splitlines()]
    for record in found:
        jsonschema.validate(record, record_schema())
    return found


def test_a_worker_killed_in_mid_run_is_replaced_and_its_video_done_again(folder, tmp_path):
    log = tmp_path / "log"
    half = max(1, len(os.sched_getaffinity(0)) // 2)
    words = ["describe", "-v", "--format=jsonl", "--ray", "local", f"--threads={half}", folder]
    with started(*words, env={"FAKE_DELAY": "0.15", "FAKE_LOG": str(log)}) as process:
        *_, (_, _, prompt_pid) = wait_for(log, "answer", 3, STARTED_S)
        os.kill(prompt_pid, signal.SIGKILL)
        out, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    # Nothing but records, though Ray prints to standard output when a worker dies.
    found = valid(out.decode())
    assert sorted(record["path"] for record in found) == [
        f"{folder}/{number}.mp4" for number in range(COUNT)
    ]
    again = [record for record in found if record["warnings"]]
    assert [record["warnings"] for record in again] == [["its worker died, it was done again"]]
    warning = f"vidcap: warning: {again[0]['path']}: its worker died, it was done again"
    assert warning in errors.decode()
    slots = int(re.search(r"up to (\d+) Ray workers? with ", errors.decode())[1])
    # The pair was loaded once in each process and in that of the replacement.
    loads = [pid for *_, pid in events(log, "load")]
    assert len(set(loads)) == len(loads) == slots + 1
    assert len(events(log, "open")) == COUNT + 1


def test_a_driver_killed_in_mid_run_loses_nothing_and_the_next_goes_on(folder, tmp_path):
    out, log = tmp_path / "out.jsonl", tmp_path / "log"
    env = {"FAKE_DELAY": "0.15", "FAKE_LOG": str(log)}
    words = ["describe", "--out-file", out, folder]
    with started(*words, "--ray", "local", env=env) as process:
        wait_for(log, "close", 3, STARTED_S)
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = out.read_bytes()
    whole = before[: before.rindex(b"\n") + 1]
    done = len(valid(whole.decode()))
    assert 1 <= done < COUNT
    with started(*words, env=env | {"VIDCAP_RAY": "local"}) as process:
        _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert f"{done} of {COUNT} were done already" in errors.decode()
    assert out.read_bytes().startswith(whole)
    found = valid(out.read_text("utf-8"))
    assert sorted(record["path"] for record in found) == [
        f"{folder}/{number}.mp4" for number in range(COUNT)
    ]


def test_ctrl_c_ends_the_workers_and_keeps_what_is_done(folder, tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    env = {"FAKE_DELAY": "0.15", "FAKE_LOG": str(log)}
    words = ["describe", "-q", "--format", "json", "-o", out, "--ray", "local", folder]
    with started(*words, env=env) as process:
        wait_for(log, "close", 3, STARTED_S)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, b"")
    names = sorted(path.name for path in out.iterdir())
    assert names[0] == ".vidcap.jsonl"
    assert 1 <= len(names) - 1 < COUNT
    for name in names[1:]:
        jsonschema.validate(json.loads((out / name).read_text("utf-8")), record_schema())
    (pids,) = {tuple(pid for *_, pid in events(log, "load"))}
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_real_pair_says_on_a_cluster_what_it_says_here(tiny_target, tiny_perturbed, tmp_path):
    folder = tmp_path / "clips"
    folder.mkdir()
    for seed in (3, 4):
        write_mp4(sample_scene(seed), folder / f"{seed}.mp4")
    pair = f"{tiny_target}+{tiny_perturbed}"
    words = ["--pair", pair, "--dtype", "float32", "--max-tokens", "8", "--fps", "1", folder]
    done = subprocess.run(
        [sys.executable, "-m", "vidcap", "describe", "--format=jsonl", "--ray", "local", *words],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    found = valid(done.stdout.decode())
    assert [record["model"]["device"] for record in found] == ["cpu", "cpu"]
    here = Captioner(
        ModelSettings(pair=pair, device="cpu", dtype="float32", threads=1),
        VideoSettings(fps=1),
        GenerationSettings(max_tokens=8),
        method_settings("sd-tree"),
    )
    for seed in (3, 4):
        with here.open(folder / f"{seed}.mp4") as session:
            answer = session.answer(DEFAULT_DESCRIBE_PROMPT)
        (text,) = [record["text"] for record in found if record["path"] == f"{folder}/{seed}.mp4"]
        assert text == answer.text
