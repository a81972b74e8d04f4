"""Every option, declared once: name, help, environment variable, default.

Commands take the groups below; the defaults are those of :mod:`vidcap.settings`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated, Any, Literal

from vidcap.cli.binding import option
from vidcap.cli.completing import complete_method, complete_pair, complete_part
from vidcap.cli.values import parse_duration, parse_time, read_text
from vidcap.errors import UsageError
from vidcap.parts import field_name, parse_fixed, parse_part, part_keys
from vidcap.settings import (
    DEFAULT_DESCRIBE_PROMPT,
    DEFAULT_METHOD,
    METHODS,
    VISKIP_THRESHOLD,
    GenerationSettings,
    LooseName,
    ModelSettings,
    PositionPolicy,
    PruneName,
    SpeculationSettings,
    TreeName,
    VideoSettings,
    method_settings,
)

_MODEL = ModelSettings()
_VIDEO = VideoSettings()
_GENERATION = GenerationSettings()

_model = partial(option, panel="Model")
_video = partial(option, panel="Video")
_generation = partial(option, panel="Generation")
_speculation = partial(option, panel="Speculation")
_output = partial(option, panel="Output")
demo_option = partial(option, panel="Clip")
bench_option = partial(option, panel="Bench")


def _methods_help() -> str:
    lines = [f"{name}: {preset.summary}" for name, preset in METHODS.items()]
    return "How tokens are decoded. " + "; ".join(lines) + "."


@dataclass(frozen=True, slots=True)
class HubOptions:
    """How models are had from the hub."""

    revision: Annotated[
        str | None,
        _model("--revision", metavar="REV", help="Branch, tag or commit of models on the hub."),
    ] = _MODEL.revision
    offline: Annotated[bool, _model("--offline", help="Never ask the hub; use what is cached.")] = (
        _MODEL.offline
    )


@dataclass(frozen=True, slots=True)
class PairOptions:
    """Which target and draft model."""

    pair: Annotated[
        str | None,
        _model(
            "-m",
            "--pair",
            metavar="NAME|TARGET[+DRAFT]",
            autocompletion=complete_pair,
            help="Target and draft: a preset (see vidcap models list), or hub ids or local folders "
            "joined by '+'.",
        ),
    ] = _MODEL.pair
    target: Annotated[
        str | None,
        _model("--target", metavar="MODEL", help="Another target for the pair."),
    ] = _MODEL.target
    draft: Annotated[
        str | None,
        _model("--draft", metavar="MODEL", help="Another draft for the pair."),
    ] = _MODEL.draft
    no_draft: Annotated[
        bool,
        _model("--no-draft", help="Load the target alone and decode plainly."),
    ] = not _MODEL.use_draft
    hub: HubOptions = HubOptions()


@dataclass(frozen=True, slots=True)
class ComputeOptions:
    """Where and how the models run."""

    device: Annotated[
        str,
        _model("--device", metavar="auto|cpu|cuda[:N]", help="Device to run on."),
    ] = _MODEL.device
    draft_device: Annotated[
        str | None,
        _model(
            "--draft-device",
            metavar="DEVICE",
            help="Device of the draft, if not that of the target.",
        ),
    ] = _MODEL.draft_device
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        _model(
            "--dtype",
            help="Number format; auto is bfloat16 where the hardware has it, else float32.",
        ),
    ] = _MODEL.dtype
    positions: Annotated[
        PositionPolicy,
        _model(
            "--positions",
            help="Positions of the text after the video: as the models were trained, or as the "
            "installed transformers computes them.",
        ),
    ] = _MODEL.positions
    threads: Annotated[
        int | None,
        _model("--threads", min=1, metavar="N", help="CPU threads, all together."),
    ] = _MODEL.threads


@dataclass(frozen=True, slots=True)
class VideoOptions:
    """Which frames."""

    fps: Annotated[float, _video("--fps", metavar="N", help="Frames per second of video.")] = (
        _VIDEO.fps
    )
    max_frames: Annotated[
        int,
        _video(
            "--max-frames", metavar="N", help="Most frames; a longer video is sampled more thinly."
        ),
    ] = _VIDEO.max_frames
    max_pixels: Annotated[
        int | None,
        _video(
            "--max-pixels",
            metavar="N",
            help="Most pixels of one frame, if below the model's own limit.",
        ),
    ] = _VIDEO.max_pixels
    start: Annotated[
        str | None,
        _video("--start", metavar="TIME", help="Start there: seconds or HH:MM:SS[.mmm]."),
    ] = None
    end: Annotated[
        str | None,
        _video("--end", metavar="TIME", help="Stop there: seconds or HH:MM:SS[.mmm]."),
    ] = None

    def settings(self) -> VideoSettings:
        """The options as settings.

        Raises:
            UsageError: where a value makes no sense.
        """
        start_s = _VIDEO.start_s if self.start is None else parse_time(self.start, "--start")
        end_s = _VIDEO.end_s if self.end is None else parse_time(self.end, "--end")
        return VideoSettings(self.fps, self.max_frames, self.max_pixels, start_s, end_s)


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """The words for the model."""

    prompt: Annotated[
        str | None,
        _generation(
            "--prompt",
            metavar="TEXT|@FILE",
            help="describe: what to ask for; ask: an instruction put before each question.",
            show_default=f"describe: '{DEFAULT_DESCRIBE_PROMPT}'",
        ),
    ] = None

    def text(self) -> str | None:
        """The prompt, read from its file where one is named.

        Raises:
            UsageError: where that fails.
        """
        return None if self.prompt is None else read_text(self.prompt, "--prompt")


@dataclass(frozen=True, slots=True)
class LengthOptions:
    """How much text."""

    max_tokens: Annotated[
        int,
        _generation("--max-tokens", metavar="N", help="Most new tokens."),
    ] = _GENERATION.max_tokens


@dataclass(frozen=True, slots=True)
class GenerationOptions(LengthOptions):
    """How much text, and how its tokens are chosen."""

    temperature: Annotated[
        float,
        _generation(
            "--temperature", metavar="T", help="0 takes the likeliest token, above it samples."
        ),
    ] = _GENERATION.temperature
    top_p: Annotated[
        float,
        _generation(
            "--top-p", metavar="P", help="Sample from the fewest likely tokens that hold this mass."
        ),
    ] = _GENERATION.top_p
    seed: Annotated[
        int | None,
        _generation("--seed", min=0, metavar="S", help="Seed of the samples."),
    ] = _GENERATION.seed

    def settings(self) -> GenerationSettings:
        """The options as settings.

        Raises:
            UsageError: where a value makes no sense.
        """
        return GenerationSettings(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
        )


#: Parts that have an option of their own.
_OWN_OPTION = {"tree", "draft-tokens", "prune", "prune-by", "verify", "loose-rule"}
_OWN_OPTION |= {"loose-fraction"}
_OTHER_PARTS = [key for key in part_keys() if key not in _OWN_OPTION]


@dataclass(frozen=True, slots=True)
class PartOptions:
    """Parts of a method, set by themselves."""

    draft_tokens: Annotated[
        int | None,
        _speculation(
            "--draft-tokens",
            metavar="N",
            help="Length of the drafted chain.",
            show_default=f"sd: {METHODS['sd'].draft_tokens}, lookup: "
            f"{METHODS['lookup'].draft_tokens}",
        ),
    ] = None
    tree: Annotated[
        TreeName | None,
        _speculation("--tree", help="Shape of what is drafted per round."),
    ] = None
    prune: Annotated[
        float | None,
        _speculation(
            "--prune",
            min=0,
            max=1,
            metavar="SHARE",
            help="Share of the draft's visual tokens that is dropped; 1 leaves none.",
        ),
    ] = None
    prune_by: Annotated[
        PruneName | None,
        _speculation("--prune-by", help="What decides which ones."),
    ] = None
    verify: Annotated[
        Literal["strict", "loose"] | None,
        _speculation(
            "--verify",
            help="Strict keeps the target's own text; loose lets some drafts stand, for speed.",
        ),
    ] = None
    loose_rule: Annotated[
        LooseName | None,
        _speculation("--loose-rule", help="Which drafts may stand (implies --verify loose)."),
    ] = None
    loose_fraction: Annotated[
        float | None,
        _speculation(
            "--loose-fraction",
            min=0,
            max=1,
            metavar="SHARE",
            help="Share of the drafts that LVSpec lets stand (implies --verify loose).",
        ),
    ] = None
    viskip: Annotated[
        bool | None,
        _speculation(
            "--viskip/--no-viskip",
            help=f"Draft nothing where {VISKIP_THRESHOLD:g} of the attention is on the video.",
            show_default="no",
        ),
    ] = None
    set: Annotated[
        list[str] | None,
        _speculation(
            "--set",
            metavar="KEY=VALUE",
            autocompletion=complete_part,
            help="Any other part of a method (repeatable): " + ", ".join(_OTHER_PARTS) + ".",
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """What was set by its own option, by the names of the settings."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        del values["set"]
        values["viskip"] = VISKIP_THRESHOLD if self.viskip else None
        if self.verify is None and (self.loose_rule or self.loose_fraction is not None):
            values["verify"] = "loose"
        return {name: value for name, value in values.items() if value is not None}

    def overrides(self) -> dict[str, Any]:
        """Everything that was set, ``--set`` included.

        Raises:
            UsageError: for an unknown key, a value that makes no sense, a part set twice.
        """
        given, named = self.given(), parse_fixed(self.set or [])
        for key, text in named.items():
            if field_name(key) in given:
                raise UsageError(f"'{key}' is given twice")
            given[field_name(key)] = parse_part(key, text)
        return given


@dataclass(frozen=True, slots=True)
class SpeculationOptions:
    """How it is decoded."""

    method: Annotated[
        str | None,
        _speculation(
            "--method",
            metavar="|".join(METHODS),
            autocompletion=complete_method,
            help=_methods_help(),
            show_default=f"{DEFAULT_METHOD}; plain with --no-draft",
        ),
    ] = None
    parts: PartOptions = PartOptions()

    def settings(self, *, use_draft: bool = True) -> SpeculationSettings:
        """The options as settings.

        Args:
            use_draft: False where no draft is loaded.

        Raises:
            UsageError: for an unknown method, or parts that contradict each other.
        """
        name = self.method or (DEFAULT_METHOD if use_draft else "plain")
        settings = method_settings(name, **self.parts.overrides())
        if settings.needs_draft and not use_draft:
            raise UsageError(f"--method {name} needs a draft, --no-draft takes it away")
        return settings


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """Whether a video is described in one piece."""

    every: Annotated[
        str | None,
        _video(
            "--every",
            metavar="DURATION",
            help="One caption for each window of that length, with its times: 30s, 2m, 1:30; "
            "--max-frames then holds for each window.",
        ),
    ] = None

    def settings(self, video: VideoSettings) -> VideoSettings:
        """The settings with the length of the windows.

        Raises:
            UsageError: where it makes no sense.
        """
        if self.every is None:
            return video
        return replace(video, every_s=parse_duration(self.every, "--every"))


@dataclass(frozen=True, slots=True)
class FactsFormatOptions:
    """What facts look like."""

    format: Annotated[
        Literal["text", "json"], _output("--format", help="Form of what is printed.")
    ] = "text"


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """What is said on standard error."""

    quiet: Annotated[bool, _output("-q", "--quiet", help="Errors only.")] = False
    verbose: Annotated[bool, _output("-v", "--verbose", help="More details.")] = False
    debug: Annotated[bool, _output("--debug", help="Print a traceback with each error.")] = False


@dataclass(frozen=True, slots=True)
class ReportOptions(MessageOptions):
    """What is said beside the answer."""

    profile: Annotated[bool, _output("--profile", help="Print a table of where the time went.")] = (
        False
    )


def model_settings(pair: PairOptions, compute: ComputeOptions) -> ModelSettings:
    """Both groups as settings.

    Raises:
        UsageError: where a draft is asked for and forbidden at once.
    """
    if pair.no_draft and pair.draft is not None:
        raise UsageError("--draft and --no-draft contradict each other")
    return ModelSettings(
        pair=pair.pair,
        target=pair.target,
        draft=pair.draft,
        use_draft=not pair.no_draft,
        revision=pair.hub.revision,
        device=compute.device,
        draft_device=compute.draft_device,
        dtype=compute.dtype,
        positions=compute.positions,
        offline=pair.hub.offline,
        threads=compute.threads,
    )
