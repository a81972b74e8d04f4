"""Every example of the README runs as it stands there, with the pair that comes with vidcap.

Examples that say ``# needs the net`` or ``# needs a GPU`` are left out; what installs and tests is
run by ``.ci/run``. Numbers that only cost time are made small.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest

from tests.readme.blocks import README, ROOT, blocks, commands, is_marked
from tests.readme.server import write_command
from vidcap.demo.clips import write_mp4
from vidcap.demo.scenes import sample_scene
from vidcap.output.record import record_schema

#: What ``.ci/run`` runs by itself.
_BY_CI = ("python3 -m venv", "pip install", "pytest", "ruff check")

#: Where each example finds its videos: files by the seed of their scene.
VIDEOS = {
    "clip.mp4": 1,
    "one.mp4": 2,
    "two.webm": 3,
    "film.mkv": 4,
    "lecture.mp4": 5,
    "videos/a/clip.mp4": 6,
    "videos/b/clip.mov": 7,
    "lectures/first.mp4": 8,
    "talks/x.avi": 9,
}

EXAMPLES = [line for line in commands() if not is_marked(line) and not line.startswith(_BY_CI)]


def test_the_mark_is_on_what_cannot_run_here_and_on_nothing_else():
    marked = [line for line in commands() if is_marked(line)]
    assert marked
    for line in commands():
        elsewhere = "qwen2.5-vl" in line and not re.search(r"vidcap (models show|plan) ", line)
        elsewhere |= "yt-dlp" in line or "head:6379" in line
        assert is_marked(line) == elsewhere, line


def test_the_settings_are_a_file_that_is_accepted(cli, tmp_path):
    (text,) = blocks("toml")
    path = tmp_path / "config.toml"
    path.write_text(text, "utf-8")
    assert tomllib.loads(text)
    assert cli("models", "show", "specvlm", "--config", path).exit_code == 0


def test_the_record_shown_has_the_keys_of_the_schema():
    for text in blocks("json"):
        shown, schema = json.loads(text), record_schema()
        for key, value in shown.items():
            known = schema["properties"][key]
            if isinstance(value, dict):
                name = known.get("$ref") or next(
                    item["$ref"] for item in known["anyOf"] if "$ref" in item
                )
                assert value.keys() <= schema["$defs"][name.split("/")[-1]]["properties"].keys()


def test_every_exit_code_of_the_readme_is_that_of_the_manual():
    from vidcap.cli.manual import EXIT_CODES

    shown = re.findall(r"^\| (\d+) \| ", README.split("## Exit codes")[1], re.MULTILINE)
    assert shown == [code for code, _ in EXIT_CODES]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the videos that the examples name, and what installing puts below a prefix."""
    folder = tmp_path_factory.mktemp("readme")
    for name, seed in VIDEOS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_mp4(sample_scene(seed), folder / "made.mp4")
        (folder / "made.mp4").rename(folder / name)
    (folder / "last-run").touch()
    os.utime(folder / "last-run", (0, 0))
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    for source, goal in build["targets"]["wheel"]["shared-data"].items():
        target = folder / "prefix" / goal
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, target)
    return folder


@pytest.fixture(scope="module")
def variables(place):
    """Variables under which ``vidcap`` is the program under test, quick and with the demo pair."""
    (place / "bin").mkdir()
    (place / "bin" / "python").symlink_to(sys.executable)
    write_command(place / "bin" / "vidcap", place / "socket")
    given = {
        "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(place),
        "VIRTUAL_ENV": str(place / "prefix"),
        "MANPAGER": "cat",
        "LC_ALL": "C.UTF-8",
        "VIDCAP_PAIR": "demo",
        "VIDCAP_MAX_TOKENS": "8",
        "VIDCAP_FPS": "1",
        "VIDCAP_COUNT": "1",
        "VIDCAP_VISUAL_TOKENS": "100",
        "OMP_NUM_THREADS": "1",
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.readme.server", str(place / "socket")],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout.readline() == b"ready\n"
        yield os.environ | given
    finally:
        server.kill()
        server.wait()


def _shell(line: str) -> list[str]:
    """The shell that a line is for, as the comment behind it says."""
    for shell, words in (("zsh", ["-f", "-c"]), ("fish", ["--no-config", "-c"])):
        if f"# {shell}" in line:
            return [shell, *words]
    return ["bash", "--norc", "-o", "pipefail", "-c"]


@pytest.mark.system
@pytest.mark.parametrize("line", EXAMPLES)
def test_the_example_runs(place, variables, line):
    wanted = re.sub(r"(vidcap bench .*--count) \d+", r"\1 1", line)
    if "# zsh" in line:
        wanted = f"autoload -Uz compinit; compinit -u -D; {wanted}"
    done = subprocess.run(
        [*_shell(line), wanted],
        cwd=place,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode, _complaints(done.stderr)) == (0, []), done.stderr
    assert _is_quiet(line) or done.stdout.strip()


def _complaints(errors: str) -> list[str]:
    return [line for line in errors.splitlines() if not line.startswith("vidcap: notice: ")]


def _is_quiet(line: str) -> bool:
    """Whether an example prints nothing by itself."""
    return re.search(r"^source |--out-file| -o |--clips| > ", line) is not None
