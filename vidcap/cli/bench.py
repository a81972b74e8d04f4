"""``vidcap bench``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from vidcap.bench.arms import (
    DEFAULT_ARMS,
    PLAIN,
    TRANSFORMERS,
    Arm,
    make_arms,
    parse_grid,
)
from vidcap.bench.report import Report
from vidcap.cli import runtime
from vidcap.cli.answers import make_console
from vidcap.cli.console import Console
from vidcap.cli.options import (
    ComputeOptions,
    LengthOptions,
    MessageOptions,
    PairOptions,
    PartOptions,
    PromptOptions,
    VideoOptions,
    bench_option,
    model_settings,
)
from vidcap.cli.signals import Interrupts
from vidcap.errors import UsageError, VidcapError
from vidcap.output.streams import is_unicode
from vidcap.parts import parse_fixed
from vidcap.settings import METHODS, GenerationSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidcap.bench.datasets import Clip, DataSet
    from vidcap.bench.metrics import ArmFigures
    from vidcap.captioner import Captioner

_DEMO = "demo"
_LAST_SEED = 2**31 - 1
_VISUAL_TOKENS = "1000"


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """The options of the bench."""

    pair: PairOptions
    compute: ComputeOptions
    video: VideoOptions
    prompt: PromptOptions
    length: LengthOptions
    parts: PartOptions
    messages: MessageOptions
    dataset: Annotated[
        str,
        bench_option(
            "--dataset",
            metavar="demo|DIR|FILE.jsonl|NAME=DIR",
            help="Clips rendered on the spot, a folder of videos, or a file that lists them; NAME "
            "is what the results call it.",
        ),
    ] = _DEMO
    count: Annotated[
        int, bench_option("--count", min=1, metavar="N", help="How many clips, at most.")
    ] = 10
    seed: Annotated[
        int,
        bench_option(
            "--seed", min=0, max=_LAST_SEED, metavar="S", help="Which demo clips are rendered."
        ),
    ] = 0
    visual_tokens: Annotated[
        str | None,
        bench_option(
            "--visual-tokens",
            metavar="N[,N]",
            help="About how many visual tokens a demo clip has; each of several numbers in turn.",
            show_default=_VISUAL_TOKENS,
        ),
    ] = None
    arm: Annotated[
        list[str] | None,
        bench_option(
            "--arm",
            metavar="NAME",
            help=f"What is compared (repeatable): {', '.join(METHODS)}, or {TRANSFORMERS}, "
            "which is its own generate on the same inputs.",
            show_default=", ".join(DEFAULT_ARMS),
        ),
    ] = None
    grid: Annotated[
        list[str] | None,
        bench_option(
            "--grid",
            metavar="KEY=V1,V2",
            help="Runs the arms that have a part with each of the values (repeatable).",
        ),
    ] = None
    questions: Annotated[
        bool,
        bench_option("--questions", help="Ask about every demo clip as well."),
    ] = False
    check_exact: Annotated[
        bool,
        bench_option(
            "--check-exact", help="End with 1 where an arm that promises plain's text differs."
        ),
    ] = False
    format: Annotated[
        Literal["table", "json", "md", "csv"],
        bench_option("--format", help="Form of the figures on standard output."),
    ] = "table"
    out_file: Annotated[
        Path | None,
        bench_option(
            "--out-file",
            metavar="FILE",
            help="Keep every single result there; a second run goes on where the first ended.",
        ),
    ] = None


def bench(options: BenchOptions) -> int:
    """Compare methods on a set of clips.

    All arms run in one process, in turn on every clip, each with a prefill of its own. Speed,
    acceptance and accuracy go to standard output.
    """
    console = make_console(options.messages)
    arms = _arms(options)
    lengths = _lengths(options)
    if options.check_exact and PLAIN not in [arm.name for arm in arms]:
        raise UsageError("--check-exact compares with plain", hint=f"add --arm {PLAIN}")
    if options.seed + options.count - 1 > _LAST_SEED:
        raise UsageError(f"--seed plus --count goes beyond {_LAST_SEED}")
    runtime.hush_libraries(console)
    folder = tempfile.TemporaryDirectory(prefix="vidcap-", ignore_cleanup_errors=True)
    with Interrupts(), folder as place:
        try:
            measurement = _Measurement(options, console, arms, Path(place))
            report = measurement.run(lengths)
        finally:
            console.still()
    if any(arm.clips for arm in report.arms):
        ascii_only = not is_unicode(sys.stdout.encoding)
        sys.stdout.write(report.render(options.format, ascii_only=ascii_only))
        sys.stdout.flush()
    different = _tell_differences(arms, report.arms, console, check=options.check_exact)
    return 1 if measurement.failed or different else 0


def _arms(options: BenchOptions) -> list[Arm]:
    fixed = parse_fixed(options.parts.set or [])
    for name, value in options.parts.given().items():
        key = name.replace("_", "-")
        if key in fixed:
            raise UsageError(f"'{key}' is given twice")
        fixed[key] = str(value)
    arms = make_arms(options.arm or DEFAULT_ARMS, fixed, parse_grid(options.grid or []))
    drafting = [arm.name for arm in arms if arm.needs_draft]
    if drafting and options.pair.no_draft:
        raise UsageError(f"arm '{drafting[0]}' needs a draft, --no-draft takes it away")
    return arms


def _lengths(options: BenchOptions) -> list[int]:
    """The asked numbers of visual tokens, none for a data set that has its own clips."""
    if options.dataset != _DEMO:
        if options.questions:
            raise UsageError("--questions asks about demo clips, --dataset names others")
        if options.visual_tokens is not None:
            raise UsageError("--visual-tokens chooses among demo clips, --dataset names others")
        return []
    words = (options.visual_tokens or _VISUAL_TOKENS).split(",")
    if not all(word.strip().isdecimal() and int(word) for word in words):
        raise UsageError(
            f"--visual-tokens takes whole numbers above 0, joined by commas, "
            f"not '{options.visual_tokens}'"
        )
    return list(dict.fromkeys(int(word) for word in words))


class _Measurement:
    """One run of the bench."""

    def __init__(self, options: BenchOptions, console: Console, arms: Sequence[Arm], place: Path):
        self._options = options
        self._console = console
        self._arms = arms
        self._place = place
        self.failed = False

    def run(self, lengths: Sequence[int]) -> Report:
        """All arms on all clips."""
        from vidcap.bench.datasets import named_place, read_dataset
        from vidcap.bench.machine import describe_machine
        from vidcap.bench.metrics import figures
        from vidcap.bench.results import RunStore
        from vidcap.bench.runner import Bench, shared_settings

        options = self._options
        # What is wrong with a data set is told before the models are looked for.
        name, data_set = _DEMO, None
        if not lengths:
            name, place = named_place(options.dataset)
            data_set = read_dataset(place, options.count, options.prompt.text())
        captioner = self._captioner()
        machine = describe_machine(options.compute.threads)
        found: list[ArmFigures] = []
        with RunStore(options.out_file) as store:
            bench = Bench(
                captioner,
                self._arms,
                store,
                machine,
                progress=self._console.busy,
                on_error=self._fail,
            )
            for data in [data_set] if data_set else self._rendered(captioner, lengths):
                if data.notice:
                    self._console.notice(data.notice)
                more = {} if data.visual_tokens is None else {"visual_tokens": data.visual_tokens}
                found += figures(self._arms, bench.run(data), **more)
        if bench.reused:
            self._console.notice(f"{bench.reused} results come from {options.out_file}")
        settings = {
            "dataset": name,
            "count": options.count,
            "seed": options.seed if lengths else None,
            "visual_tokens": list(lengths) or None,
            "prompt": options.prompt.text(),
            "questions": options.questions,
        }
        return Report(machine | bench.ran_on, settings | shared_settings(captioner), found)

    def _captioner(self) -> Captioner:
        options = self._options
        methods = [arm.speculation for arm in self._arms if arm.speculation and arm.needs_draft]
        captioner = runtime.make_captioner(
            model_settings(options.pair, options.compute),
            options.video.settings(),
            GenerationSettings(max_tokens=options.length.max_tokens),
            methods[0] if methods else METHODS[PLAIN],
        )
        for notice in captioner.notices:
            self._console.notice(notice)
        return captioner

    def _rendered(self, captioner: Captioner, lengths: Sequence[int]) -> Iterator[DataSet]:
        from vidcap.bench.rendered import render_dataset

        options = self._options
        for length in lengths:
            yield render_dataset(
                self._place / str(length),
                captioner.geometry,
                captioner.video,
                count=options.count,
                seed=options.seed,
                visual_tokens=length,
                prompt=options.prompt.text(),
                ask=options.questions,
                progress=self._console.busy,
            )

    def _fail(self, error: Exception, clip: Clip) -> None:
        self.failed = True
        self._console.error(error, clip.name)


def _tell_differences(
    arms: Sequence[Arm], found: Sequence[ArmFigures], console: Console, *, check: bool
) -> bool:
    """Says which arms left the text of plain decoding; True where the check is not passed."""
    failed = False
    strict = {arm.name for arm in arms if arm.promises_exactness}
    for figures in found:
        if not figures.first_differences:
            continue
        first = figures.first_differences[0]
        words = (
            f"{figures.name} differs from {PLAIN} on {len(figures.first_differences)} of "
            f"{figures.clips} clips: {first.clip} at token {first.position}"
        )
        if first.margin is not None:
            words += f", where the target's margin is {first.margin:.2g}"
        if check and figures.name in strict:
            console.error(VidcapError(words))
            failed = True
        else:
            console.notice(words)
    return failed
