"""``--trace``: a file with what every thread did and when."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vidcap.cli.values import check_new_file
from vidcap.errors import UsageError
from vidcap.trace import Trace

if TYPE_CHECKING:
    from vidcap.captioner import Captioner


def check_trace(path: Path | None, ray: str | None = None) -> None:
    """Find out before the work whether the trace can be had.

    Args:
        path: where it goes, None for nowhere.
        ray: the cluster that works, None for this process.

    Raises:
        UsageError: it cannot.
    """
    if path is None:
        return
    if ray is not None:
        raise UsageError("--trace shows this process, with --ray others do the work")
    check_new_file(path, "--trace")


@contextmanager
def tracing(captioner: Captioner, path: Path | None) -> Iterator[None]:
    """Writes what the captioner does inside to `path`, also when it fails half way.

    Raises:
        VidcapError: the file cannot be written.
    """
    if path is None:
        yield
        return
    trace = Trace()
    captioner.record_trace(trace)
    try:
        yield
    finally:
        trace.save(path)
