"""``vidcap bench``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vidcap.bench.arms import PLAIN, Arm, loading_method
from vidcap.bench.page import write_page
from vidcap.bench.report import Report
from vidcap.cli import runtime
from vidcap.cli.answers import make_console
from vidcap.cli.bench_options import DEMO, BenchOptions
from vidcap.cli.console import Console
from vidcap.cli.options import model_settings
from vidcap.cli.signals import Interrupts
from vidcap.errors import VidcapError
from vidcap.output.streams import is_unicode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidcap.bench.datasets import Clip, DataSet
    from vidcap.bench.metrics import ArmFigures
    from vidcap.captioner import Captioner


def bench(options: BenchOptions) -> int:
    """Compare methods on a set of clips.

    All arms run in one process, in turn on every clip, each with a prefill of its own. Speed,
    acceptance and accuracy go to standard output.
    """
    console = make_console(options.messages)
    arms, lengths = options.arms(), options.lengths()
    options.check(arms)
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
        if options.html is not None:
            write_page(report, options.html)
    for arm in report.arms:
        if arm.note:
            console.notice(f"{arm.name}: {arm.note}")
    different = _tell_differences(arms, report.arms, console, check=options.check_exact)
    return 1 if measurement.failed or different else 0


class _Measurement:
    """One run of the bench."""

    def __init__(self, options: BenchOptions, console: Console, arms: Sequence[Arm], place: Path):
        self._options = options
        self._generation = options.generation_settings()
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
        name, data_set = DEMO, None
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
                runs = bench.run(data)
                found += figures(self._arms, runs, sampled=self._generation.temperature > 0, **more)
        for warning in captioner.warnings:
            self._console.warning(warning)
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
        captioner = runtime.make_captioner(
            model_settings(options.pair, options.compute),
            options.video.settings(),
            self._generation,
            loading_method(self._arms),
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
