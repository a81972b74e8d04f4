"""The options of ``vidcap bench``, and what they mean together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from vidcap.bench.arms import (
    ASSISTED,
    DEFAULT_ARMS,
    GENERATES,
    LOOKUP,
    PLAIN,
    TRANSFORMERS,
    Arm,
    make_arms,
    parse_grid,
)
from vidcap.cli.options import (
    ComputeOptions,
    MessageOptions,
    PairOptions,
    PartOptions,
    PromptOptions,
    SamplingOptions,
    VideoOptions,
    bench_option,
)
from vidcap.cli.values import check_new_file
from vidcap.errors import UsageError
from vidcap.parts import parse_fixed
from vidcap.settings import METHODS, GenerationSettings

DEMO = "demo"
_LAST_SEED = 2**31 - 1
_VISUAL_TOKENS = "1000"


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """The options of the bench."""

    pair: PairOptions
    compute: ComputeOptions
    video: VideoOptions
    prompt: PromptOptions
    generation: SamplingOptions
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
    ] = DEMO
    count: Annotated[
        int, bench_option("--count", min=1, metavar="N", help="How many clips, at most.")
    ] = 10
    seed: Annotated[
        int,
        bench_option(
            "--seed",
            min=0,
            max=_LAST_SEED,
            metavar="S",
            help="Which demo clips are rendered, and with --temperature the seed of every answer.",
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
            help=f"What is compared (repeatable): {', '.join(METHODS)}; or transformers' own "
            f"generate on the same inputs: {TRANSFORMERS}, {ASSISTED} (with the draft as its "
            f"assistant_model), {LOOKUP} (with its prompt look-up).",
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
    html: Annotated[
        Path | None,
        bench_option("--html", metavar="FILE", help="Write the figures as a page with bars too."),
    ] = None
    out_file: Annotated[
        Path | None,
        bench_option(
            "--out-file",
            metavar="FILE",
            help="Keep every single result there; a second run goes on where the first ended.",
        ),
    ] = None

    def arms(self) -> list[Arm]:
        """What is compared.

        Raises:
            UsageError: an unknown arm or part, a part that makes no difference, an arm that drafts
                where no draft is loaded.
        """
        fixed = parse_fixed(self.parts.set or [])
        for name, value in self.parts.given().items():
            key = name.replace("_", "-")
            if key in fixed:
                raise UsageError(f"'{key}' is given twice")
            fixed[key] = str(value)
        arms = make_arms(self.arm or DEFAULT_ARMS, fixed, parse_grid(self.grid or []))
        drafting = [arm.name for arm in arms if arm.needs_draft]
        if drafting and self.pair.no_draft:
            raise UsageError(f"arm '{drafting[0]}' needs a draft, --no-draft takes it away")
        return arms

    def lengths(self) -> list[int]:
        """The asked numbers of visual tokens, none for a data set that has its own clips.

        Raises:
            UsageError: they are no numbers, or the data set has its own.
        """
        if self.dataset != DEMO:
            if self.questions:
                raise UsageError("--questions asks about demo clips, --dataset names others")
            if self.visual_tokens is not None:
                raise UsageError("--visual-tokens chooses among demo clips, --dataset names others")
            return []
        words = (self.visual_tokens or _VISUAL_TOKENS).split(",")
        if not all(word.strip().isdecimal() and int(word) for word in words):
            raise UsageError(
                f"--visual-tokens takes whole numbers above 0, joined by commas, "
                f"not '{self.visual_tokens}'"
            )
        return list(dict.fromkeys(int(word) for word in words))

    def generation_settings(self) -> GenerationSettings:
        """How tokens are chosen; the seed counts where they are drawn.

        Raises:
            UsageError: where a value makes no sense.
        """
        greedy = self.generation.temperature == 0
        return self.generation.with_seed(None if greedy else self.seed)

    def check(self, arms: Sequence[Arm]) -> None:
        """Find out before the work whether the options go together.

        Raises:
            UsageError: they do not.
        """
        if self.check_exact and PLAIN not in [arm.name for arm in arms]:
            raise UsageError("--check-exact compares with plain", hint=f"add --arm {PLAIN}")
        if self.check_exact and self.generation.temperature > 0:
            raise UsageError("--check-exact needs greedy texts, --temperature draws samples")
        generating = [arm.name for arm in arms if arm.name in GENERATES]
        if self.pair.cut.tensor_parallel > 1 and generating:
            raise UsageError(
                f"--tensor-parallel is vidcap's own, arm '{generating[0]}' runs without it",
                hint=f"name the arms: --arm {PLAIN} --arm sd-tree",
            )
        if self.seed + self.count - 1 > _LAST_SEED:
            raise UsageError(f"--seed plus --count goes beyond {_LAST_SEED}")
        if self.html is not None:
            check_new_file(self.html, "--html")
