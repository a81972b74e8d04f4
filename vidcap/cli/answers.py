"""Answers prompts about videos, one after the other, and tells how it went."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vidcap.cli import runtime
from vidcap.cli.console import Console, explain
from vidcap.cli.options import AnswerOptions, MessageOptions, model_settings
from vidcap.cli.profile import print_profile
from vidcap.cli.signals import EXIT_INTERRUPTED, Interrupts
from vidcap.errors import InputError, ModelError, UsageError, VidcapError
from vidcap.output.record import Kind, Record
from vidcap.output.streams import OutputClosed, OutputError
from vidcap.output.text import one_line
from vidcap.output.writer import Writer, make_writer

if TYPE_CHECKING:
    from vidcap.captioner import Captioner
    from vidcap.session import VideoSession


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt for every video; ``question`` is what the user asked with it."""

    kind: Kind
    prompt: str
    question: str | None = None


def answer_all(paths: Sequence[str], requests: Sequence[Request], options: AnswerOptions) -> int:
    """Answers every request about every video and returns the exit code."""
    console = make_console(options.report)
    speculation = options.speculation.settings(use_draft=not options.pair.no_draft)
    settings = (
        model_settings(options.pair, options.compute),
        options.video.settings(),
        options.generation.settings(),
        speculation,
    )
    runtime.hush_libraries(console)
    writer = make_writer(
        options.format.format,
        sys.stdout,
        inputs=len(paths),
        questions=len(requests),
        live=options.format.stream,
    )
    with Interrupts() as interrupts:
        try:
            captioner = runtime.make_captioner(*settings)
            run = Run(captioner, console, writer, interrupts, profile=options.report.profile)
            code = run.answer(paths, requests)
        except (OutputClosed, OutputError):
            raise
        except BaseException:
            writer.close()
            raise
        finally:
            console.still()
        writer.close()
    return code


def make_console(options: MessageOptions) -> Console:
    """The console that the options ask for."""
    return Console(quiet=options.quiet, verbose=options.verbose, debug=options.debug)


class Run:
    """One loaded pair at work on a list of videos."""

    def __init__(
        self,
        captioner: Captioner,
        console: Console,
        writer: Writer,
        interrupts: Interrupts,
        *,
        profile: bool = False,
        notices: bool = True,
    ):
        self._captioner = captioner
        self._console = console
        self._writer = writer
        self._interrupts = interrupts
        self._profile = profile
        self._wants_notices = notices
        self._failed = False

    def answer(self, paths: Sequence[str], requests: Sequence[Request]) -> int:
        """Answers all requests; an input that fails gets an error record and the rest goes on.

        Returns:
            0, 1 where an input failed, 130 after Ctrl-C.

        Raises:
            ModelError: nothing can run.
        """
        first = next((path for path in paths if os.path.isfile(path)), None)
        if first is not None:
            self._captioner.prefetch(first)
        for path in paths:
            self._answer_video(path, requests)
            if self._interrupts.count:
                return EXIT_INTERRUPTED
        return 1 if self._failed else 0

    def _answer_video(self, path: str, requests: Sequence[Request]) -> None:
        done = 0
        try:
            check_input(path)
            self._load()
            self._console.busy(f"reading {one_line(path)}")
            with self._captioner.open(path) as session:
                for request in requests:
                    self._answer_request(session, path, request)
                    done += 1
                    if self._interrupts.count:
                        return
        except (ModelError, OutputError, UsageError):
            raise
        except Exception as error:
            self._fail(path, error, requests[done:])

    def _load(self) -> None:
        self._notices()
        self._console.busy(f"loading {self._captioner.pair_name}")
        try:
            self._captioner.load()
        except VidcapError:
            raise
        except Exception as error:
            known = explain(error)
            raise ModelError(known.message, hint=known.hint) from error
        self._interrupts.check()
        self._notices()

    def _notices(self) -> None:
        if self._wants_notices:
            for notice in self._captioner.notices:
                self._console.notice(notice)

    def _answer_request(self, session: VideoSession, path: str, request: Request) -> None:
        self._writer.begin(path, request.question)
        self._console.busy(f"describing {one_line(path)}")
        with self._interrupts.answering() as keep_words:

            def on_text(text: str) -> None:
                keep_words()
                self._console.still()
                self._writer.piece(text)

            record = session.answer(
                request.prompt,
                kind=request.kind,
                question=request.question,
                on_text=on_text,
                should_stop=self._interrupts.should_stop,
            )
            keep_words()
            self._console.still()
            self._writer.end(record)
        self._report(record)

    def _report(self, record: Record) -> None:
        for warning in record.warnings:
            self._console.warning(warning, record.path)
        self._console.detail(_summary(record), record.path)
        if self._profile:
            print_profile(record, self._console)

    def _fail(self, path: str, error: Exception, requests: Sequence[Request]) -> None:
        self._failed = True
        known = explain(error)
        self._console.still()
        for request in requests:
            self._writer.begin(path, request.question)
            self._writer.end(
                self._captioner.error_record(
                    path, known, request.kind, request.prompt, request.question
                )
            )
        self._console.error(error, path)


def check_input(path: str) -> None:
    """Finds the plainest mistakes before any weights are loaded.

    Raises:
        InputError: where there is nothing to open at ``path``.
    """
    if os.path.isdir(path):
        raise InputError("is a folder, not a video")
    if not os.path.exists(path):
        raise InputError("no such file")


def _summary(record: Record) -> str:
    words = [f"{record.tokens.generated} tokens"] if record.tokens else []
    timing, speculation = record.timing, record.speculation
    if timing and timing.total_s is not None:
        words.append(f"{timing.total_s:.2f} s")
    if timing and timing.tokens_per_s is not None:
        words.append(f"{timing.tokens_per_s:.1f} tokens/s")
    if speculation and speculation.mean_acceptance_length is not None:
        words.append(f"{speculation.mean_acceptance_length:.2f} tokens per target call")
    if record.finish_reason:
        words.append(f"ended by {record.finish_reason}")
    return ", ".join(words)
