"""Options that say which models run, and how."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from vidcap.cli.binding import option
from vidcap.cli.completing import complete_pair
from vidcap.errors import UsageError
from vidcap.settings import AttentionName, ModelSettings, PositionPolicy, QuantizeName

_MODEL = ModelSettings()

_model = partial(option, panel="Model")


@dataclass(frozen=True, slots=True)
class HubOptions:
    """How models are had from the hub."""

    revision: Annotated[
        str | None,
        _model(
            "--revision",
            metavar="REV",
            help="Branch, tag or commit of models on the hub; OWNER/NAME@REV sets one model's own.",
        ),
    ] = _MODEL.revision
    offline: Annotated[bool, _model("--offline", help="Never ask the hub; use what is cached.")] = (
        _MODEL.offline
    )


@dataclass(frozen=True, slots=True)
class CutOptions:
    """Over how many processes the target's layers are cut."""

    tensor_parallel: Annotated[
        int,
        _model(
            "--tensor-parallel",
            min=1,
            metavar="N",
            help="Cut every layer of the target over N GPUs that compute at the same time (on a "
            "CPU: over N processes that share the threads). N has to divide its heads.",
        ),
    ] = _MODEL.tensor_parallel


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
            show_default="the largest cached preset that fits the machine; plan: cached or not",
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
    cut: CutOptions = CutOptions()
    hub: HubOptions = HubOptions()


@dataclass(frozen=True, slots=True)
class ComputeOptions:
    """Where and how the models run."""

    device: Annotated[
        str,
        _model(
            "--device",
            metavar="auto|cpu|cuda[:N][,...]",
            help="Device to run on; several GPUs joined by commas share the target, 'cpu' behind "
            "them keeps what they have no room for. auto: a GPU that is large enough, else all of "
            "them, and main memory for the rest.",
        ),
    ] = _MODEL.device
    draft_device: Annotated[
        str | None,
        _model(
            "--draft-device",
            metavar="DEVICE",
            help="Device of the draft, if not the target's first one.",
        ),
    ] = _MODEL.draft_device
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        _model(
            "--dtype",
            help="Number format; auto is bfloat16 where the hardware has it, else float32.",
        ),
    ] = _MODEL.dtype
    attn: Annotated[
        AttentionName,
        _model(
            "--attn",
            help="Attention kernels: auto takes the flash kernel where it runs, sdpa does without "
            "it, flash refuses to run where it does not.",
        ),
    ] = _MODEL.attention
    quantize: Annotated[
        QuantizeName,
        _model(
            "--quantize",
            help="Pack the target's weights: changes its text a little, lossless methods still "
            "give what the packed target gives. int4 on CPUs only. Needs the extra 'quant'.",
        ),
    ] = _MODEL.quantize
    draft_quantize: Annotated[
        QuantizeName,
        _model("--draft-quantize", help="Pack the draft's weights; never changes the text."),
    ] = _MODEL.draft_quantize
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
        _model(
            "--threads",
            min=1,
            metavar="N",
            help="CPU threads, all together.",
            show_default="as many as there are cores to use",
        ),
    ] = _MODEL.threads


def model_settings(pair: PairOptions, compute: ComputeOptions) -> ModelSettings:
    """Both groups as settings.

    Raises:
        UsageError: where a draft is asked for and forbidden at once, or on several devices.
    """
    if pair.no_draft and pair.draft is not None:
        raise UsageError("--draft and --no-draft contradict each other")
    if compute.draft_device is not None and "," in compute.draft_device:
        raise UsageError("--draft-device takes one device: a draft is not spread")
    return ModelSettings(
        pair=pair.pair,
        target=pair.target,
        draft=pair.draft,
        use_draft=not pair.no_draft,
        revision=pair.hub.revision,
        device=compute.device,
        draft_device=compute.draft_device,
        dtype=compute.dtype,
        attention=compute.attn,
        quantize=compute.quantize,
        draft_quantize=compute.draft_quantize,
        positions=compute.positions,
        offline=pair.hub.offline,
        threads=compute.threads,
        tensor_parallel=pair.cut.tensor_parallel,
    )
