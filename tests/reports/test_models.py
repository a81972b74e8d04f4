"""What people reported about tools like this one, for models and the hub; not so here."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.processes import ROOT, environment

#: ``vidcap`` where an attempt to connect or to look up a name is written to stderr.
GUARDED = """
import socket, sys
def refuse(*args, **how):
    sys.stderr.write("CONNECTION\\n")
    raise OSError("no network here")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from vidcap.cli import main
main()
"""
PAIR = ["--pair", "qwen2.5-vl-7b"]


@pytest.fixture
def vidcap(tmp_path):
    """Runs ``vidcap`` with an empty cache."""
    clip = tmp_path / "clip.mp4"
    clip.write_bytes(b"not really a video")

    def run(*words, **more):
        return subprocess.run(
            [sys.executable, "-c", GUARDED, *words, str(clip)],
            cwd=ROOT,
            env=environment(HF_HOME=str(tmp_path / "hub"), **more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (["describe", *PAIR, "--offline"], {}),
        (["describe", *PAIR], {"HF_HUB_OFFLINE": "1"}),
        (["describe", *PAIR], {"VIDCAP_OFFLINE": "1"}),
    ],
    ids=["option", "hub's variable", "own variable"],
)
def test_offline_is_respected(vidcap, words, variables):
    done = vidcap(*words, **variables)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "vidcap: error: model 'Qwen/Qwen2.5-VL-7B-Instruct' is not cached and the run is offline\n"
    )


def test_the_guard_would_notice_a_connection(vidcap):
    done = vidcap("describe", *PAIR)
    assert done.returncode == 3
    assert "CONNECTION" in done.stderr
    assert "the hub cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_is_downloaded_without_being_named(vidcap):
    done = vidcap("describe")
    assert (done.returncode, done.stdout) == (3, "")
    first, hint = done.stderr.splitlines()
    assert first == "vidcap: error: no model is cached and none was named"
    assert "`vidcap models pull qwen2.5-vl-" in hint
    assert " GB)" in hint
