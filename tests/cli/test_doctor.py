from __future__ import annotations

import json
import os

import pytest

import vidcap
from vidcap import doctor
from vidcap.models import catalogue, pair


@pytest.fixture
def demo(monkeypatch, tiny_target, tiny_draft, tmp_path):
    """A demo pair and an empty cache."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    folders = {"target": tiny_target, "draft": tiny_draft}
    for module in (pair, catalogue):
        monkeypatch.setattr(module, "builtin_folder", folders.__getitem__)
    monkeypatch.setattr(doctor, "cuda_devices", list)
    return folders


def test_a_sound_installation_has_no_problems(cli, demo, monkeypatch):
    monkeypatch.setenv("VIDCAP_FPS", "3")
    monkeypatch.setenv("HF_TOKEN", "secret")
    result = cli("doctor")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [line.split(maxsplit=1) for line in result.stdout.splitlines() if line]
    keys = [row[0] for row in rows]
    assert rows[0] == ["vidcap", vidcap.__version__]
    for key in ("torch", "transformers", "libavcodec", "threads", "device", "attention"):
        assert key in keys
    assert ["VIDCAP_FPS", "3"] in rows
    assert "secret" not in result.stdout
    assert "loads in " in result.stdout
    assert result.stdout.endswith("\nno problems found\n")


def test_the_report_as_json(cli, demo, tmp_path):
    config = tmp_path / "settings.toml"
    config.write_text("fps = 2\n")
    blob = tmp_path / "hub" / "models--a--b" / "blobs" / "x"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"12345")
    report = json.loads(cli("doctor", "--format", "json", "--config", config).stdout)
    assert report["problems"] == []
    assert report["config"] == {"file": str(config), "exists": True}
    assert report["models"] == {
        "cache": str(tmp_path / "hub"),
        "cache_bytes": 5,
        "cached_pairs": ["demo"],
    }
    assert report["demo"]["loads"] is True
    (cpu,) = report["devices"]
    assert cpu["name"] == "cpu"
    assert cpu["attention"]["math"] is True
    assert report["torch"]["cores"] == os.cpu_count()
    assert all(place["writable"] for place in report["places"] if place["what"] != "configuration")


def test_a_missing_demo_pair_is_a_problem_and_ends_with_3(cli, demo, tmp_path):
    demo["draft"] = tmp_path
    (tmp_path / "config.json").write_text("{}")
    result = cli("doctor")
    assert result.exit_code == 3
    assert "\nproblem: the demo pair cannot be loaded: " in result.stdout
    assert "no problems" not in result.stdout


def test_a_missing_package_is_a_problem(cli, demo, monkeypatch):
    monkeypatch.setattr(doctor, "_PACKAGES", ("torch", "no-such-package"))
    result = cli("doctor")
    assert result.exit_code == 3
    assert "problem: package no-such-package is missing\n" in result.stdout


def test_a_place_that_cannot_be_written_is_a_problem(cli, demo, monkeypatch):
    monkeypatch.setattr(doctor, "cache_folder", lambda: doctor.Path("/proc/nothing"))
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: str(path) != "/proc")
    result = cli("doctor")
    assert result.exit_code == 3
    assert "problem: model cache: /proc/nothing is not writable\n" in result.stdout


def test_a_kernel_that_does_not_run_is_left_out(cli, demo, monkeypatch):
    import torch

    def refuse(*args, **how):
        raise RuntimeError("no kernel")

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", refuse)
    problems: list[str] = []
    works = doctor._attention_kernels(doctor.cpu(), problems)
    assert not any(works.values())
    assert problems == ["torch cannot compute on cpu"]
