"""Options of the commands that answer: the form of the answers, where they go, many videos."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from vidcap.cli.binding import option
from vidcap.cli.message_options import AnswerReportOptions
from vidcap.cli.options import (
    ComputeOptions,
    GenerationOptions,
    PairOptions,
    PromptOptions,
    SpeculationOptions,
    VideoOptions,
    WindowOptions,
)
from vidcap.errors import UsageError

_output = partial(option, panel="Output")
_batch = partial(option, panel="Batch")


@dataclass(frozen=True, slots=True)
class AnswerFormatOptions:
    """What the answers look like and where they go."""

    format: Annotated[
        Literal["text", "json", "jsonl", "tsv", "srt", "vtt"] | None,
        _output(
            "--format",
            help="Form of the answers.",
            show_default="text; with --out-file jsonl, or tsv by its name",
        ),
    ] = None
    stream: Annotated[
        bool,
        _output("--stream/--no-stream", help="Print text as it is accepted (format text)."),
    ] = True
    out_dir: Annotated[
        Path | None,
        _output(
            "-o",
            "--out-dir",
            metavar="DIR",
            help="One file of answers per video there, in the tree of the folder that was named: "
            "a/clip.mp4.json. Files that are up to date are left alone.",
        ),
    ] = None
    out_file: Annotated[
        Path | None,
        _output(
            "--out-file",
            metavar="FILE",
            help="Append all answers to this file (jsonl or tsv). Those that it holds already are "
            "not made again.",
        ),
    ] = None
    overwrite: Annotated[
        bool, _output("--overwrite", help="Make answers again that are there already.")
    ] = False

    def form(self) -> str:
        """The format, which also follows from the name of the file.

        Raises:
            UsageError: where the options contradict each other.
        """
        if self.out_dir is not None and self.out_file is not None:
            raise UsageError("--out-dir and --out-file contradict each other")
        if self.overwrite and self.out_dir is None and self.out_file is None:
            raise UsageError("--overwrite needs --out-dir or --out-file")
        if self.out_file is None:
            return self.format or "text"
        by_name = "tsv" if self.out_file.suffix.lower() == ".tsv" else "jsonl"
        if self.format not in (None, "jsonl", "tsv"):
            raise UsageError(
                f"--out-file holds jsonl or tsv, not {self.format}",
                hint="--out-dir writes one file per video in any format",
            )
        return self.format or by_name


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How many videos are worked through."""

    files_from: Annotated[
        str | None,
        _batch(
            "--files-from",
            metavar="FILE|-",
            help="Read paths from a file or from standard input, one a line; each is answered as "
            "soon as its line has come.",
        ),
    ] = None
    prefetch: Annotated[
        int | None,
        _batch(
            "--prefetch",
            min=0,
            metavar="N",
            help="Videos that are decoded ahead while the models are busy, on threads taken from "
            "them; with less than 4 threads there are none to spare.",
            show_default="1",
        ),
    ] = None
    ray: Annotated[
        str | None,
        _batch(
            "--ray",
            metavar="[ADDRESS]",
            help="Share the videos out to workers on a Ray cluster: one per GPU, or per CPU where "
            "there are no GPUs, with --threads CPUs each. ADDRESS is HOST:PORT, or local for a new "
            "one on this machine; without it RAY_ADDRESS names the cluster, or it is the one that "
            "this machine belongs to, or a new one. Ray comes with the extra `ray`.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """The options that ``describe`` and ``ask`` share."""

    pair: PairOptions
    compute: ComputeOptions
    video: VideoOptions
    windows: WindowOptions
    prompt: PromptOptions
    generation: GenerationOptions
    speculation: SpeculationOptions
    format: AnswerFormatOptions
    batch: BatchOptions
    report: AnswerReportOptions
