"""What can be chosen, as frozen values: nothing here imports torch, numpy or PyAV.

The command line, a configuration file and the Python API all end in these dataclasses, so help and
validation need none of the heavy packages.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from vidcap.errors import UsageError

DEFAULT_DESCRIBE_PROMPT = "Describe this video in detail."

PositionPolicy = Literal["reference", "transformers"]
TreeName = Literal["none", "chain", "static"]


@dataclass(frozen=True, slots=True)
class VideoSettings:
    """Which frames of a video the model gets to see.

    Attributes:
        fps: sampled frames per second of video.
        max_frames: cap on the number of frames; a longer video is sampled more thinly.
        max_pixels: cap on the pixels of one frame, None for the model's own limit.
        start_s: start of the range in seconds from the first frame.
        end_s: end of the range in seconds, None for the end of the video.
    """

    fps: float = 2.0
    max_frames: int = 64
    max_pixels: int | None = None
    start_s: float = 0.0
    end_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.fps <= 1000:
            raise UsageError(f"--fps must be above 0 and at most 1000, not {self.fps:g}")
        if self.max_frames < 1:
            raise UsageError(f"--max-frames must be at least 1, not {self.max_frames}")
        if self.max_pixels is not None and self.max_pixels < 1:
            raise UsageError(f"--max-pixels must be at least 1, not {self.max_pixels}")
        if self.start_s < 0:
            raise UsageError(f"--start must not be negative, not {self.start_s:g}")
        if self.end_s is not None and self.end_s <= self.start_s:
            raise UsageError(f"--end ({self.end_s:g} s) must be after --start ({self.start_s:g} s)")


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """How text is generated.

    Attributes:
        max_tokens: most tokens to generate, the stop token included.
        repetition_penalty: None for the value in the target's generation_config.
    """

    max_tokens: int = 256
    repetition_penalty: float | None = None

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise UsageError(f"--max-tokens must be at least 1, not {self.max_tokens}")
        if self.repetition_penalty is not None and self.repetition_penalty <= 0:
            raise UsageError("the repetition penalty must be above 0")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which pair is loaded, and how.

    Attributes:
        pair: a preset's name, ``TARGET`` or ``TARGET+DRAFT`` (hub ids or local folders).
        target, draft: override one half of the pair.
        use_draft: False loads the target alone.
        device, draft_device: torch device names; draft_device None means device.
        dtype: ``auto`` is bfloat16 on CUDA and on CPUs with native bf16, else float32.
        positions: see ``vidcap.engine.positions``.
    """

    pair: str | None = None
    target: str | None = None
    draft: str | None = None
    use_draft: bool = True
    revision: str | None = None
    device: str = "auto"
    draft_device: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    positions: PositionPolicy = "reference"
    offline: bool = False
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class SpeculationSettings:
    """A speculative method, taken apart.

    Attributes:
        method: the preset's name, kept for the record.
        tree: shape of what is drafted per round; ``none`` is plain decoding.
        draft_tokens: length of a drafted chain (ignored by the static tree).
        verify: who judges the drafts; ``strict`` is lossless.
        summary: one line for help.
    """

    method: str = "plain"
    tree: TreeName = "none"
    draft_tokens: int = 5
    verify: Literal["strict"] = "strict"
    summary: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.draft_tokens <= 64:
            raise UsageError(f"--draft-tokens must be between 1 and 64, not {self.draft_tokens}")

    @property
    def needs_draft(self) -> bool:
        """Whether a draft model has to be loaded."""
        return self.tree != "none"


#: Method presets as plain data. A new method is a new line here and its classes in the engine.
METHODS: dict[str, SpeculationSettings] = {
    "plain": SpeculationSettings("plain", summary="one token per target call, no draft"),
    "sd": SpeculationSettings("sd", tree="chain", summary="a chain of drafted tokens, strict"),
    "sd-tree": SpeculationSettings(
        "sd-tree", tree="static", summary="the 25-node static tree of SpecVLM, strict"
    ),
}

DEFAULT_METHOD = "sd-tree"


def method_settings(name: str, **overrides: Any) -> SpeculationSettings:
    """The preset ``name`` with every override that is not None applied.

    Raises:
        UsageError: for an unknown method, or a part that the method does not have.
    """
    preset = METHODS.get(name)
    if preset is None:
        raise UsageError(f"unknown method '{name}'", hint="methods: " + ", ".join(METHODS))
    given = {key: value for key, value in overrides.items() if value is not None}
    unknown = given.keys() - {field.name for field in fields(SpeculationSettings)}
    if unknown:
        raise UsageError(f"unknown speculation setting '{sorted(unknown)[0]}'")
    if "draft_tokens" in given and preset.tree != "chain":
        raise UsageError(f"--draft-tokens sets the length of a chain; method '{name}' drafts none")
    return replace(preset, **given)
