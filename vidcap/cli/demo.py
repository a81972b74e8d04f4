"""``vidcap demo``."""

from __future__ import annotations

import io
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from vidcap.cli import runtime
from vidcap.cli.answers import Request, answer_one, make_console
from vidcap.cli.console import Console
from vidcap.cli.options import (
    ComputeOptions,
    PairOptions,
    ReportOptions,
    SpeculationOptions,
    demo_option,
    model_settings,
)
from vidcap.cli.profile import comparison
from vidcap.cli.signals import Interrupts
from vidcap.errors import InputError, UsageError
from vidcap.output.record import Record
from vidcap.output.text import TextWriter
from vidcap.settings import (
    DEFAULT_DESCRIBE_PROMPT,
    GenerationSettings,
    SpeculationSettings,
    VideoSettings,
    method_settings,
)

if TYPE_CHECKING:
    from vidcap.captioner import Captioner
    from vidcap.demo.scenes import Scene

_LAST_SEED = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the demo."""

    compute: ComputeOptions
    speculation: SpeculationOptions
    report: ReportOptions
    seed: Annotated[
        int,
        demo_option(
            "--seed", min=0, max=_LAST_SEED, metavar="S", help="Which clip; any number will do."
        ),
    ] = 0
    clips: Annotated[
        Path | None,
        demo_option(
            "--clips",
            metavar="DIR",
            help="Write clips and truth.jsonl there instead, and describe nothing.",
        ),
    ] = None
    count: Annotated[
        int | None,
        demo_option(
            "--count", min=1, metavar="N", show_default="10", help="How many clips to write."
        ),
    ] = None


def demo(options: DemoOptions) -> int:
    """Try the tool on a clip whose content is known.

    Renders a short clip of moving shapes, describes it with the pair that comes with vidcap, shows
    the truth beside the caption and the speed beside plain decoding.
    """
    console = make_console(options.report)
    if options.clips is not None:
        return _write_clips(options.clips, options.count or 10, options.seed, console)
    if options.count is not None:
        raise UsageError("--count says how many clips --clips writes")
    speculation = options.speculation.settings()
    runtime.hush_libraries(console)
    folder = tempfile.TemporaryDirectory(prefix="vidcap-", ignore_cleanup_errors=True)
    with Interrupts() as interrupts, folder as place:
        try:
            show = _Show(options, console, interrupts, Path(place) / "clip.mp4")
            return show.run(speculation)
        finally:
            console.still()


class KeepingWriter(TextWriter):
    """Writes text and keeps the record."""

    record: Record | None = None

    def end(self, record: Record) -> None:
        """Keeps the complete answer."""
        super().end(record)
        self.record = record


class _Show:
    """One run of the demo: the caption, the truth, the speed."""

    def __init__(self, options: DemoOptions, console: Console, interrupts: Interrupts, clip: Path):
        self._options = options
        self._console = console
        self._interrupts = interrupts
        self._clip = clip

    def run(self, speculation: SpeculationSettings) -> int:
        """Everything in its order; returns the exit code."""
        scene = self._render()
        captioner = runtime.make_captioner(
            model_settings(PairOptions(pair="demo"), self._options.compute),
            VideoSettings(),
            GenerationSettings(),
            speculation,
        )
        _say(f"Caption ({speculation.method})")
        writer = KeepingWriter(sys.stdout, terminal=sys.stdout.isatty())
        code = self._describe(captioner, writer, profile=self._options.report.profile)
        if code or writer.record is None:
            return code
        _say("")
        _show_truth(scene, writer.record.text or "")
        return self._compare(captioner, speculation, writer.record)

    def _render(self) -> Scene:
        from vidcap.demo.clips import write_mp4
        from vidcap.demo.scenes import sample_scene

        self._console.busy("rendering a clip")
        scene = sample_scene(self._options.seed)
        write_mp4(scene, self._clip)
        self._console.still()
        width, height = scene.size
        _say(
            f"Clip {self._options.seed}: {scene.duration_s:g} s, {width} x {height} pixels, "
            f"{self._clip.stat().st_size / 1000:.0f} kB of MP4\n"
        )
        return scene

    def _describe(
        self, captioner: Captioner, writer: KeepingWriter, *, profile: bool = False
    ) -> int:
        return answer_one(
            captioner,
            str(self._clip),
            Request("describe", DEFAULT_DESCRIBE_PROMPT),
            writer,
            self._console,
            self._interrupts,
            profile=profile,
        )

    def _compare(
        self, captioner: Captioner, speculation: SpeculationSettings, shown: Record
    ) -> int:
        """Measures again, now that everything is warm, and without a terminal in the way."""
        arms = [(speculation.method, captioner)]
        if speculation.method != "plain":
            arms.append(("plain", captioner.variant(method_settings("plain"))))
        columns: list[tuple[str, Record]] = []
        for name, arm in arms:
            writer = KeepingWriter(io.StringIO())
            code = self._describe(arm, writer)
            if code or writer.record is None:
                return code
            columns.append((name, writer.record))
        _say("\n" + "\n".join(comparison(columns)))
        return _tell_equality(shown, [record for _, record in columns])


def _tell_equality(shown: Record, others: list[Record]) -> int:
    """Says whether all texts are equal; 1 where they must be and are not."""
    if len(others) < 2:
        return 0
    if all(record.text == shown.text for record in others):
        _say("\nExactly the same text: yes")
        return 0
    if any(record.speculation and record.speculation.verify == "loose" for record in others):
        _say("\nExactly the same text: no; loose verification does not promise it")
        return 0
    dtype = shown.model.dtype if shown.model else None
    if dtype in ("bfloat16", "float16"):
        _say(f"\nExactly the same text: no; in {dtype} near ties can fall either way")
        return 0
    _say("\nExactly the same text: NO")
    return 1


def _show_truth(scene: Scene, text: str) -> None:
    import numpy as np

    from vidcap.demo.language import caption
    from vidcap.demo.scenes import truth
    from vidcap.demo.score import score_caption

    score = score_caption(truth(scene), text)
    _say("Truth")
    _say(caption(scene, np.random.default_rng(scene.seed)))
    _say(
        f"\nFacts: {score.right} right, {score.wrong} wrong, {score.missing} missing "
        f"({100 * score.accuracy:.0f} %)"
    )


def _write_clips(folder: Path, count: int, seed: int, console: Console) -> int:
    from vidcap.demo.clips import write_dataset

    if seed + count - 1 > _LAST_SEED:
        raise UsageError(f"--seed plus --count goes beyond {_LAST_SEED}")
    console.busy(f"writing {count} clips")
    try:
        write_dataset(folder, count, seed)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from error
    finally:
        console.still()
    console.notice(f"wrote {count} clips and truth.jsonl to {folder}")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
