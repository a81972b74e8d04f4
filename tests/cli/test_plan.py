from __future__ import annotations

import json
import subprocess
import sys

import pytest

from vidcap.demo.clips import write_mp4
from vidcap.demo.scenes import FIRST_WORLD, sample_scene


@pytest.fixture
def video(tmp_path):
    path = tmp_path / "clip.mp4"
    write_mp4(sample_scene(3, FIRST_WORLD), path)
    return path


@pytest.fixture
def pair(tiny_target, tiny_draft):
    return ["--device", "cpu", "--dtype", "float32", "--pair", f"{tiny_target}+{tiny_draft}"]


def test_a_plan_reads_as_a_table(cli, video, pair, tiny_target, tiny_draft):
    result = cli("plan", *pair, "--max-frames", "4", video)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = {
        line.split()[0]: line.split(maxsplit=1)[1] for line in result.stdout.splitlines() if line
    }
    assert rows["target"] != str(tiny_target)  # the second row of that name has the sizes
    assert " weights, " in rows["target"]
    assert rows["draft"].endswith(" keys and values")
    assert rows["device"].startswith("cpu: ")
    assert rows["device"].endswith(", float32")
    assert rows["window"].startswith("4 frames at 0.00 to ")
    assert rows["tokens"].startswith("32 visual, 32 for the draft, about ")
    assert rows["memory"].endswith(" in all: fits")
    assert "==>" not in result.stdout


def test_that_no_preset_fits_is_said(cli, video, monkeypatch):
    from vidcap.models import pair
    from vidcap.models.machine import Device

    small = Device("cpu", "a small machine", 2_000_000_000, bf16=True)
    monkeypatch.setattr(pair, "find_devices", lambda name: (small,))
    monkeypatch.setattr("vidcap.plan.find_devices", lambda name: (small,))
    result = cli("plan", video)
    assert result.exit_code == 0
    assert result.stderr == (
        "vidcap: notice: no preset fits this machine with a video of 16,384 visual tokens, "
        "not even llava-onevision-7b, which this plan is for\n"
    )
    assert "pair    llava-onevision-7b" in result.stdout
    assert result.stdout.endswith(": does not fit\n")


def test_folders_and_standard_input_are_planned_too(cli, video, pair, tmp_path):
    (tmp_path / "empty").mkdir()
    result = cli("plan", *pair, "--format", "json", tmp_path, tmp_path / "empty")
    assert result.exit_code == 1
    assert [entry["path"] for entry in json.loads(result.stdout)["videos"]] == [
        str(video),
        str(tmp_path / "empty"),
    ]
    assert result.stderr == f"vidcap: error: {tmp_path / 'empty'}: the folder holds no video\n"
    command = [sys.executable, "-m", "vidcap", "plan", "--format", "json", *map(str, pair), "-"]
    with video.open("rb") as stream:
        done = subprocess.run(command, stdin=stream, capture_output=True, check=True, timeout=60)
    (entry,) = json.loads(done.stdout)["videos"]
    assert (entry["path"], entry["video"]["codec"]) == ("-", "h264")


def test_windows_of_time_are_listed(cli, video, pair):
    rows = cli("plan", *pair, "--every", "1s", video).stdout.splitlines()
    windows = [row for row in rows if row.startswith("window")]
    assert len(windows) >= 3
    assert windows[1].split(maxsplit=1)[1].startswith("2 frames at 1.00 to 1.50 s")
    many = cli("plan", *pair, "--every", "0.2s", "--fps", "20", video).stdout.splitlines()
    (row,) = [row for row in many if row.startswith("window")]
    assert " of up to 2 frames, " in row


@pytest.mark.parametrize(
    "words",
    [["plan", "--pair", "PAIR", "CLIP"], ["models", "list"], ["models", "show", "qwen2.5-vl-7b"]],
)
def test_nothing_that_takes_seconds_is_imported(video, pair, words):
    words = [
        pair[-1] if word == "PAIR" else str(video) if word == "CLIP" else word for word in words
    ]
    code = (
        "import sys\nfrom vidcap.cli import main\n"
        f"sys.argv = ['vidcap', *{words!r}]\n"
        "try:\n    main()\nfinally:\n"
        "    print(sorted({'torch', 'transformers'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_several_files_are_headed_and_one_bad_one_is_one_line(cli, video, pair, tmp_path):
    (tmp_path / "song.mp4").write_bytes(b"no video at all")
    gone = tmp_path / "gone.mp4"
    result = cli("plan", *pair, video, tmp_path / "song.mp4", gone, video)
    assert result.exit_code == 1
    assert result.stdout.count(f"==> {video} <==") == 2
    errors = result.stderr.splitlines()
    assert errors[0].startswith(f"vidcap: error: {tmp_path / 'song.mp4'}: ")
    assert f"vidcap: error: {gone}: no such file" in errors


def test_json_holds_pair_devices_and_every_input(cli, video, pair, tmp_path):
    result = cli("plan", *pair, "--format", "json", video, tmp_path / "gone.mp4")
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert data["dtype"] == "float32"
    good, bad = data["videos"]
    assert (good["path"], good["status"], good["error"]) == (str(video), "ok", None)
    assert good["memory"]["fits"] is True
    assert good["video"]["codec"] == "h264"
    assert bad == {
        "path": str(tmp_path / "gone.mp4"),
        "status": "error",
        "error": {"type": "InputError", "message": "no such file", "hint": None},
    }


def test_where_every_input_fails_only_the_errors_are_printed(cli, pair, tmp_path):
    result = cli("plan", *pair, tmp_path / "gone.mp4")
    assert (result.exit_code, result.stdout) == (1, "")


def test_the_options_of_a_run_count(cli, video, pair):
    def tokens(*words):
        data = json.loads(cli("plan", *pair, "--format", "json", *words, video).stdout)
        return data["videos"][0]["tokens"]

    assert tokens("--method", "specvlm")["draft_visual"] < tokens()["draft_visual"]
    assert tokens("--fps", "1")["visual"] < tokens()["visual"]
    assert tokens("--method", "plain")["draft_visual"] is None
    assert tokens("--no-draft")["draft_visual"] is None
    assert tokens("--prompt", "word " * 300)["prompt"] > tokens()["prompt"] + 300


def test_an_end_past_the_video_is_a_warning(cli, video, pair):
    result = cli("plan", *pair, "--end", "100", video)
    assert result.exit_code == 0
    assert result.stderr.startswith(f"vidcap: warning: {video}: --end 100 s is past the end")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--pair", "nonsense"], 2, "no pair preset and no folder 'nonsense'"),
        (["--pair", "qwen2.5-vl-7b", "--device", "cuda:99"], 3, "device 'cuda:99' was asked for"),
        (["--pair", "qwen2.5-vl-7b", "--device", "warp"], 2, "device 'warp' is not supported"),
        (["--method", "magic"], 2, "unknown method 'magic'"),
    ],
)
def test_what_cannot_be_planned_is_one_line(cli, video, words, code, message):
    result = cli("plan", *words, video)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(f"vidcap: error: {message}")
