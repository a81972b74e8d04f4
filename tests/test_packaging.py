"""The wheel: what a user gets is what the tree holds."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import vidcap

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.mark.system
def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--wheel-dir", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"vidcap-{vidcap.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.startswith("vidcap-")}
        info = f"vidcap-{vidcap.__version__}.dist-info"
        scripts = archive.read(f"{info}/entry_points.txt").decode()
        licence = archive.read(f"{info}/licenses/LICENSE").decode()
        data = f"vidcap-{vidcap.__version__}.data/data/"
        shared = {name.removeprefix(data) for name in archive.namelist() if name.startswith(data)}
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "vidcap").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == package
    assert {"vidcap/py.typed", "vidcap/output/record.schema.json"} <= held
    assert shared == {
        "share/bash-completion/completions/vidcap",
        "share/fish/vendor_completions.d/vidcap.fish",
        "share/zsh/site-functions/_vidcap",
        *(f"share/man/man1/{page.name}" for page in (ROOT / "man").iterdir()),
    }
    assert "vidcap = vidcap.cli:main" in scripts
    assert "Apache License" in licence


def test_the_dev_extra_brings_the_test_extra_and_each_extra_something(project):
    extras = project["optional-dependencies"]
    assert set(extras) == {"test", "dev", "flash", "quant", "ray"}
    assert "vidcap[test]" in extras["dev"]
    assert all(extras.values())


def test_the_readme_opens_with_the_two_commands():
    text = (ROOT / "README.md").read_text("utf-8")
    blocks = [block.split("```")[0].strip() for block in text.split("```sh\n")[1:]]
    assert blocks[0] == (
        "python3 -m venv .venv && . .venv/bin/activate && pip install . && vidcap demo"
    )
    assert blocks[1] == "pip install '.[test]' && pytest"


def test_the_changelog_knows_the_version():
    assert f"## [{vidcap.__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_licence_is_complete():
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "9. Accepting Warranty or Additional Liability" in text
