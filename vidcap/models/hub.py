"""From a model's name to a local folder with safetensors weights."""

from __future__ import annotations

import re
from pathlib import Path

from vidcap.errors import ModelError
from vidcap.models.weights import weight_files

#: ``owner/name``, and its own revision behind an ``@``, which may have slashes as branches do.
_HUB_ID = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@(\w(?:[./]?[\w-])*))?")

#: What a model needs at run time; everything else in a repository stays where it is.
_PATTERNS = ("*.json", "*.safetensors", "*.txt", "*.jinja", "*.model")


def find_model(name: str, *, revision: str | None = None, offline: bool = False) -> Path:
    """The local folder of a model, downloaded first where it is not here.

    What is cached is used as it is: a run does not ask the hub for a newer version.

    Args:
        name: a folder in the hub's layout, or a hub id ``owner/name`` or ``owner/name@revision``.
        revision: branch, tag or commit on the hub of a name that says none.
        offline: use what is cached and never connect.

    Raises:
        ModelError: no such folder or model, no safetensors weights, or no connection.
    """
    return local_model(name, revision) or pull_model(name, revision=revision, offline=offline)


def pull_model(name: str, *, revision: str | None = None, offline: bool = False) -> Path:
    """The folder of a hub model, brought up to date with the hub.

    Raises:
        ModelError: no such model, no safetensors weights, or no connection.
    """
    if not is_hub_id(name):
        raise ModelError(
            f"no model folder '{name}'",
            hint="give a folder in the hub's layout, OWNER/NAME or OWNER/NAME@REVISION",
        )
    return check_folder(_download(name, revision, offline))


def local_model(name: str, revision: str | None = None) -> Path | None:
    """The folder of a model that is here, None for a hub model that is not; never connects.

    Raises:
        ModelError: `name` is a folder that holds no complete model, or neither folder nor hub id.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return check_folder(folder)
    if not is_hub_id(name):
        raise ModelError(
            f"no model folder '{name}'",
            hint="give a folder in the hub's layout, OWNER/NAME or OWNER/NAME@REVISION",
        )
    return cached_model(name, revision)


def is_hub_id(name: str) -> bool:
    """Whether a name has the form ``owner/name`` or ``owner/name@revision``."""
    return _HUB_ID.fullmatch(name) is not None


def _pinned(name: str, revision: str | None) -> tuple[str, str | None]:
    """The repository that a name says, and its revision: its own before the one for all."""
    match = _HUB_ID.fullmatch(name)
    return (match[1], match[2] or revision) if match else (name, revision)


def check_folder(folder: Path) -> Path:
    """`folder` if it holds a model that can be loaded.

    Raises:
        ModelError: when its configuration or some of its safetensors weights are missing.
    """
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} holds no model: config.json is missing")
    weight_files(folder)
    return folder


def folder_size(folder: Path) -> int:
    """Bytes of the files in a model's folder."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def is_offline() -> bool:
    """Whether the environment forbids connections (``HF_HUB_OFFLINE``)."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def cache_folder() -> Path:
    """Where the hub's models are cached."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def cached_model(name: str, revision: str | None = None) -> Path | None:
    """The folder of a hub model that is completely cached, else None; never connects."""
    try:
        return check_folder(_download(name, revision, offline=True))
    except ModelError:
        return None


def download_size(name: str, revision: str | None = None) -> int | None:
    """Bytes that :func:`pull_model` would fetch now, None where the hub does not tell."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    repository, revision = _pinned(name, revision)
    try:
        files = snapshot_download(
            repository, revision=revision, allow_patterns=list(_PATTERNS), dry_run=True
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError):
        return None
    return sum(file.file_size or 0 for file in files if file.will_download)


def _download(name: str, revision: str | None, offline: bool) -> Path:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    offline = offline or constants.HF_HUB_OFFLINE
    repository, revision = _pinned(name, revision)
    try:
        path = snapshot_download(
            repository,
            revision=revision,
            allow_patterns=list(_PATTERNS),
            local_files_only=offline,
        )
    except LocalEntryNotFoundError as error:
        if offline:
            raise ModelError(f"model '{name}' is not cached and the run is offline") from error
        raise ModelError(f"model '{name}' is not cached and the hub cannot be reached") from error
    except GatedRepoError as error:
        raise ModelError(
            f"model '{name}' is gated", hint="accept its terms on the hub, then run `hf auth login`"
        ) from error
    except RevisionNotFoundError as error:
        raise ModelError(f"model '{repository}' has no revision '{revision}'") from error
    except RepositoryNotFoundError as error:
        raise ModelError(f"no model '{name}' on the hub") from error
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).strip().splitlines()
        raise ModelError(
            f"model '{name}' could not be downloaded: {reason[0] if reason else error!r}"
        ) from error
    return Path(path)
