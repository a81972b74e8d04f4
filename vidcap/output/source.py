"""Telling whether a file is still the one that a record is about."""

from __future__ import annotations

import hashlib
import os

from vidcap.output.record import Source

_MIB = 1 << 20


def read_source(path: str) -> Source | None:
    """Size, time and fingerprint of a file; None where it cannot be read.

    The fingerprint covers size, modification time and the first and last MiB, so that it costs the
    same for every file.
    """
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            digest = hashlib.sha256(f"{status.st_size} {status.st_mtime_ns}".encode())
            digest.update(file.read(_MIB))
            file.seek(max(_MIB, status.st_size - _MIB))
            digest.update(file.read(_MIB))
    except (OSError, ValueError):
        return None
    return Source(status.st_size, status.st_mtime_ns, digest.hexdigest()[:32])
