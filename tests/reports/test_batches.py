"""What people reported about tools like this one, for many files: none of it happens here."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.cli.processes import COMMAND, ROOT, environment, run

WORDS = "A red circle moves to the left."


def test_a_second_file_does_not_overwrite_the_first(tmp_path):
    for folder in ("monday", "tuesday"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "clip.mp4").write_bytes(folder.encode())
    out = tmp_path / "out"
    paths = [tmp_path / "monday/clip.mp4", tmp_path / "tuesday/clip.mp4"]
    assert run("describe", "-q", "--format", "json", "-o", out, *paths).returncode == 0
    found = [json.loads(path.read_text("utf-8"))["path"] for path in out.rglob("*.json")]
    assert sorted(found) == [str(path) for path in paths]


def test_the_same_stem_with_two_suffixes_does_not_collide(tmp_path):
    for name in ("clip.mp4", "clip.mkv"):
        (tmp_path / name).touch()
    out = tmp_path / "out"
    assert run("describe", "-q", "--format", "srt", "-o", out, tmp_path).returncode == 0
    assert {path.name for path in out.glob("*.srt")} == {"clip.mp4.srt", "clip.mkv.srt"}


def test_the_exit_code_is_not_0_when_all_files_failed(tmp_path):
    paths = [tmp_path / "broken.mp4", tmp_path / "gone.mp4"]
    paths[0].touch()
    for where in ([], ["-o", tmp_path / "out"], ["--out-file", tmp_path / "out.jsonl"]):
        done = run("describe", *where, *paths)
        assert done.returncode == 1
        assert done.stderr.count(b"vidcap: error: ") == 2


def test_a_batch_does_not_restart_from_zero_after_a_crash(tmp_path):
    folder, out, log = tmp_path / "in", tmp_path / "out.jsonl", tmp_path / "log"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.mp4").touch()
    (folder / "d-oom.mp4").touch()
    env = {"FAKE_LOG": str(log)}
    assert run("describe", "--out-file", out, folder, env=env).returncode == 3
    (folder / "d-oom.mp4").rename(folder / "d.mp4")
    assert run("describe", "--out-file", out, folder, env=env).returncode == 0
    opened = [json.loads(line)[1] for line in log.read_text().splitlines() if '"open"' in line]
    assert opened == ["a.mp4", "b.mp4", "c.mp4", "d-oom.mp4", "d.mp4"]


def test_skipping_looks_at_settings_and_content_not_only_at_existence(tmp_path):
    clip, out = tmp_path / "a.mp4", tmp_path / "out"
    clip.touch()
    words = ["describe", "-o", out, clip]
    said = b"was done already"
    assert said not in run(*words).stderr
    assert said in run(*words).stderr
    assert said not in run(*words, "--fps", "1").stderr
    clip.write_bytes(b"a longer cut")
    assert said not in run(*words, "--fps", "1").stderr


def test_a_torn_last_line_is_dropped_and_the_rest_is_kept(tmp_path):
    clips = [tmp_path / "a.mp4", tmp_path / "b.mp4"]
    for clip in clips:
        clip.touch()
    out = tmp_path / "out.jsonl"
    run("describe", "--out-file", out, *clips)
    whole = out.read_bytes()
    out.write_bytes(whole[:-20])
    done = run("describe", "--out-file", out, *clips)
    assert b"1 of 2 were done already" in done.stderr
    assert out.read_bytes() == whole


@pytest.mark.system
def test_a_progress_bar_does_not_break_jq(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.mp4").touch()
    command = " ".join([*COMMAND, "describe", "--format", "jsonl", str(tmp_path)])
    done = subprocess.run(
        ["bash", "-c", f"{command} 2>&1 >/dev/null; {command} 2>/dev/null | jq -r .text"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        timeout=60,
    )
    assert done.stdout.decode() == f"vidcap: notice: the fake pair sees nothing\n{WORDS}\n{WORDS}\n"


def test_a_reader_that_leaves_a_batch_early_sees_no_traceback(tmp_path):
    for number in range(50):
        (tmp_path / f"{number:02}.mp4").touch()
    command = " ".join([*COMMAND, "describe", "-q", "--format", "jsonl", str(tmp_path)])
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1 | cut -c -20; echo ${{PIPESTATUS[0]}}"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        timeout=60,
    )
    assert done.stdout.decode() == '{"schema_version": 1\n141\n'
    assert done.stderr == b""
