"""Answers prompts about videos, one after the other, and tells how it went."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from vidcap.batch.requests import Request, check_input
from vidcap.cli import runtime
from vidcap.cli.answer_options import AnswerOptions
from vidcap.cli.console import Console
from vidcap.cli.host import ConsoleHost
from vidcap.cli.options import MessageOptions, model_settings
from vidcap.cli.progress import Bar
from vidcap.cli.signals import EXIT_INTERRUPTED, Interrupts
from vidcap.cli.spreading import check_spread, open_pool
from vidcap.cli.tracing import check_trace, tracing
from vidcap.errors import UsageError
from vidcap.output.streams import OutputClosed, OutputError
from vidcap.output.writer import Writer, make_writer

if TYPE_CHECKING:
    from vidcap.batch.desk import Tally
    from vidcap.batch.feed import Feed
    from vidcap.batch.runner import Batch
    from vidcap.batch.sinks import Sink
    from vidcap.batch.spread import SpreadBatch
    from vidcap.captioner import Captioner

__all__ = ["STDIN", "Request", "answer_all", "answer_one", "check_input", "make_console"]

STDIN = "-"


def answer_all(inputs: Sequence[str], requests: Sequence[Request], options: AnswerOptions) -> int:
    """Answers every request about every video and returns the exit code.

    Args:
        inputs: files, folders, ``-``; none where the options name a list of them.
        requests: what is asked about each.
        options: everything else.

    Raises:
        UsageError: where all that makes no sense.
        ModelError: nothing can run.
    """
    console = make_console(options.report)
    plan = _Plan(inputs, requests, options)
    settings = (
        model_settings(options.pair, options.compute),
        options.windows.settings(options.video.settings()),
        options.generation.settings(),
        options.speculation.settings(use_draft=not options.pair.no_draft),
    )
    check_trace(options.report.trace, options.batch.ray)
    if options.batch.ray is not None:
        check_spread(options.batch.ray, settings[0], inputs)
    runtime.hush_libraries(console)
    with Interrupts() as interrupts:
        try:
            captioner = runtime.make_captioner(*settings)
            with tracing(captioner, options.report.trace):
                return _run(captioner, plan, console, interrupts)
        finally:
            console.still()


def answer_one(
    captioner: Captioner,
    path: str,
    request: Request,
    writer: Writer,
    console: Console,
    interrupts: Interrupts,
    *,
    profile: bool = False,
) -> int:
    """Answers one request about one video, without the notices of the pair.

    Returns:
        0, 1 where it failed, 130 after Ctrl-C.

    Raises:
        ModelError: nothing can run.
    """
    from vidcap.batch.feed import KnownFeed
    from vidcap.batch.jobs import find_jobs
    from vidcap.batch.runner import Batch
    from vidcap.batch.sinks import StreamSink

    host = ConsoleHost(captioner, console, profile=profile, notices=False)
    batch = Batch(captioner, StreamSink(writer), interrupts, host)
    tally = batch.run(KnownFeed(find_jobs(path)), [request])
    return EXIT_INTERRUPTED if interrupts.count else min(tally.failed, 1)


def make_console(options: MessageOptions) -> Console:
    """The console that the options ask for."""
    return Console(quiet=options.quiet, verbose=options.verbose, debug=options.debug)


class _Plan:
    """What a command line asks for, checked before anything is loaded.

    Attributes:
        many: whether there may be more than one video.
        form: name of the format.

    Raises:
        UsageError: where it contradicts itself.
    """

    def __init__(self, inputs: Sequence[str], requests: Sequence[Request], options: AnswerOptions):
        self.inputs = inputs
        self.requests = requests
        self.options = options
        self.files_from = options.batch.files_from
        self.many = (
            self.files_from is not None or len(inputs) > 1 or any(map(os.path.isdir, inputs))
        )
        self.form = options.format.form()
        self._check_inputs()
        self._check_subtitles()

    def _check_inputs(self) -> None:
        if self.files_from is None and not self.inputs:
            raise UsageError("missing argument 'INPUT'", hint="see vidcap describe --help")
        if self.files_from is not None and self.inputs:
            if STDIN in self.inputs and self.files_from == STDIN:
                raise UsageError("'-' and --files-from - both read standard input")
            raise UsageError("--files-from takes the place of INPUT, give one of them")
        if self.inputs.count(STDIN) > 1:
            raise UsageError("'-' can be given once only, it reads standard input")
        if STDIN in self.inputs and sys.stdin is not None and sys.stdin.isatty():
            raise UsageError(
                "standard input is a terminal",
                hint="pipe a video into it: yt-dlp -o - URL | vidcap describe -",
            )

    def _check_subtitles(self) -> None:
        if self.form not in ("srt", "vtt"):
            return
        if len(self.requests) > 1:
            raise UsageError(f"{self.form} holds the answers to one question only")
        if self.many and self.options.format.out_dir is None:
            raise UsageError(
                f"{self.form} of several videos needs --out-dir, which makes a file of each"
            )

    def sink(self) -> Sink:
        """Where the answers go.

        Raises:
            UsageError: they cannot go there.
        """
        from vidcap.batch.line_forms import line_form
        from vidcap.batch.out_dir import FolderSink
        from vidcap.batch.out_file import FileSink
        from vidcap.batch.sinks import StreamSink

        where, questions = self.options.format, len(self.requests)
        if where.out_dir is not None:
            return FolderSink(
                where.out_dir, self.form, questions=questions, overwrite=where.overwrite
            )
        if where.out_file is not None:
            return FileSink(where.out_file, line_form(self.form), overwrite=where.overwrite)
        writer = make_writer(
            self.form,
            sys.stdout,
            inputs=2 if self.many else 1,
            questions=questions,
            live=where.stream,
        )
        return StreamSink(writer)


def _ahead(captioner: Captioner, plan: _Plan, console: Console) -> int:
    """How many videos may be decoded while the models are busy."""
    asked = plan.options.batch.prefetch
    if asked == 0:
        return 0
    if plan.options.batch.ray is not None:
        reason = "--ray is given"
    elif not plan.many:
        reason = "there is one video"
    elif plan.options.windows.every is not None:
        reason = "--every is given"
    elif captioner.decode_ahead():
        return asked or 1
    else:
        reason = "there are too few threads"
    if asked is not None:
        console.notice(f"--prefetch makes no difference, because {reason}")
    return 0


def _run(captioner: Captioner, plan: _Plan, console: Console, interrupts: Interrupts) -> int:
    from vidcap.batch.sources import open_feed

    if plan.many:
        captioner.isolate_decoding()
    ahead, sink = _ahead(captioner, plan, console), plan.sink()
    _tell_waiting(plan, console)
    with open_feed(plan.inputs, plan.files_from) as feed:
        bar, profile = _make_bar(plan, feed, console), plan.options.report.profile
        host = ConsoleHost(captioner, console, profile=profile, bar=bar, prints=not sink.keeps)
        batch = _make_batch(captioner, sink, interrupts, host, plan, console, ahead)
        try:
            tally = batch.run(feed, plan.requests)
        except (OutputClosed, OutputError):
            raise
        except BaseException:
            sink.close()
            raise
        sink.close()
    _tell_skipped(tally, console)
    return EXIT_INTERRUPTED if interrupts.count else min(tally.failed, 1)


def _make_batch(
    captioner: Captioner,
    sink: Sink,
    interrupts: Interrupts,
    host: ConsoleHost,
    plan: _Plan,
    console: Console,
    ahead: int,
) -> Batch | SpreadBatch:
    """The run in this process, or on a cluster."""
    from vidcap.batch.runner import Batch
    from vidcap.batch.spread import SpreadBatch

    address = plan.options.batch.ray
    if address is None:
        return Batch(captioner, sink, interrupts, host, ahead=ahead)
    pool = partial(open_pool, address, captioner, console)
    return SpreadBatch(captioner, sink, interrupts, host, pool)


def _tell_waiting(plan: _Plan, console: Console) -> None:
    """Says what the user might wait for without knowing."""
    if STDIN in plan.inputs:
        console.busy("reading standard input")
    if plan.files_from == STDIN and sys.stdin is not None and sys.stdin.isatty():
        console.notice("type paths, one a line; Ctrl-D ends")


def _make_bar(plan: _Plan, feed: Feed, console: Console) -> Bar | None:
    """A bar where there is something to count."""
    if not plan.many or not console.moving:
        return None
    bar = Bar(feed.total)
    console.count(bar)
    return bar


def _tell_skipped(tally: Tally, console: Console) -> None:
    if tally.skipped:
        total = tally.answered + tally.failed + tally.skipped
        words = (
            "was done already" if total == 1 else f"{tally.skipped} of {total} were done already"
        )
        console.notice(f"{words}; --overwrite does them again")
