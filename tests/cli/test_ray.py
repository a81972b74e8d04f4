"""``--ray`` on the command line, as far as it goes without a cluster."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from vidcap import Captioner
from vidcap.batch import ray_pool
from vidcap.batch.ray_pool import RayPool
from vidcap.cli.spreading import with_ray_address
from vidcap.errors import ModelError


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("describe --ray videos", "describe --ray=auto videos"),
        ("describe videos --ray", "describe videos --ray=auto"),
        ("describe --ray -q v", "describe --ray=auto -q v"),
        ("describe --ray local v", "describe --ray=local v"),
        ("describe --ray auto v", "describe --ray=auto v"),
        ("describe --ray head:6379 v", "describe --ray=head:6379 v"),
        ("describe --ray 10.0.0.7:6379 v", "describe --ray=10.0.0.7:6379 v"),
        ("describe --ray [::1]:6379 v", "describe --ray=[::1]:6379 v"),
        ("describe --ray=head:6379 v", "describe --ray=head:6379 v"),
        ("ask --ray clip.mp4 Who?", "ask --ray=auto clip.mp4 Who?"),
        ("describe -- --ray local", "describe -- --ray local"),
    ],
)
def test_the_address_may_be_left_out(words, expected):
    assert with_ray_address(words.split()) == expected.split()


@pytest.fixture
def no_ray(monkeypatch):
    """Ray is not installed, whether it is or not."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "ray" else find(name)
    )
    monkeypatch.setitem(sys.modules, "ray", None)


def test_without_ray_one_line_says_what_to_install(cli, clip, no_ray):
    result = cli("describe", "--ray", clip("a.mp4"))
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == (
        "vidcap: error: --ray needs Ray, which is not installed\nhint: pip install 'vidcap[ray]'\n"
    )
    assert cli.made == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ray=nowhere"], "--ray takes auto, local or HOST:PORT, not 'nowhere'"),
        (["--ray", "--device", "cuda:1"], "--ray gives each worker a device of its own"),
        (["--ray", "--draft-device", "cuda:1"], "--ray gives each worker a device of its own"),
        (["--ray", "-"], "'-' and --ray contradict each other"),
    ],
)
def test_what_makes_no_sense_with_workers_is_refused(cli, clip, words, message):
    result = cli("describe", clip("a.mp4"), *words, input=b"a video")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"vidcap: error: {message}" in result.stderr
    assert cli.made == []


def test_the_variable_names_a_cluster_too(cli, clip):
    result = cli("describe", clip("a.mp4"), env={"VIDCAP_RAY": "nowhere"})
    assert result.exit_code == 2
    assert "not 'nowhere'" in result.stderr


def test_nobody_at_the_address_is_said_at_once(monkeypatch):
    monkeypatch.setattr(ray_pool, "check_ray", lambda: None)
    with pytest.raises(ModelError, match=r"no Ray cluster answers at 127\.0\.0\.1:1: ") as caught:
        RayPool("127.0.0.1:1", device="cpu", threads=None, need=0, recipe=lambda slots: Captioner)
    assert caught.value.hint == "--ray local starts one on this machine"


def test_without_ray_no_pool_is_made(no_ray):
    with pytest.raises(ModelError, match="--ray needs Ray"):
        RayPool("local", device="cpu", threads=None, need=0, recipe=lambda slots: Captioner)
