"""Checkpoints that several test modules share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tiny import DRAFT_SHAPE, SHAPE, make_checkpoint


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither a configuration file nor variables of whoever runs the tests count in them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        for name in [name for name in os.environ if name.startswith("VIDCAP_")]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def tiny_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("target"), SHAPE, seed=1)


@pytest.fixture(scope="session")
def tiny_draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another random model: agrees with the target by chance only."""
    return make_checkpoint(tmp_path_factory.mktemp("draft"), DRAFT_SHAPE, seed=2)


@pytest.fixture(scope="session")
def tiny_perturbed(tmp_path_factory: pytest.TempPathFactory, tiny_target: Path) -> Path:
    """The target with a little noise on its weights: agrees with it now and then."""
    return make_checkpoint(tmp_path_factory.mktemp("near"), SHAPE, seed=3, noise_of=tiny_target)
