"""Jobs and records of a few words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.cli.fakes import fake_record
from vidcap.batch.jobs import Job
from vidcap.batch.sinks import Wanted
from vidcap.output.record import Record, Segment, Source


def job(path: Path | str) -> Job:
    return Job(str(path), str(path), Path(path).name)


def wanted(fingerprint: str = "p", settings: str = "s") -> Wanted:
    return Wanted(Source(1, 2, fingerprint), (settings,))


def record(path: Path | str, fingerprint: str = "p", settings: str = "s", **more: object) -> Record:
    return replace(
        fake_record(str(path)),
        source=Source(1, 2, fingerprint),
        settings_hash=settings,
        segments=(Segment(0, 1, "one"), Segment(1, 2, "two\tlines\nhere"), Segment(2, 3, "")),
        **more,
    )
