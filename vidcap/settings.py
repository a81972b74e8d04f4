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
QuantizeName = Literal["none", "int8", "int4"]
AttentionName = Literal["auto", "sdpa", "flash"]
TreeName = Literal["chain", "static", "dynamic", "entropy", "auto"]
PruneName = Literal["attention", "uv", "uniform", "random"]
LooseName = Literal["lvspec", "fly", "random"]
DraftName = Literal["none", "pair", "self", "lookup"]
PrefillName = Literal["sequential", "parallel"]
ArmName = Literal["full", "pruned", "text", "lookup"]


@dataclass(frozen=True, slots=True)
class VideoSettings:
    """Which frames of a video the model gets to see.

    Attributes:
        fps: sampled frames per second of video.
        max_frames: cap on the number of frames; a longer video is sampled more thinly.
        max_pixels: cap on the pixels of one frame, None for the model's own limit.
        start_s: start of the range in seconds from the first frame.
        end_s: end of the range in seconds, None for the end of the video.
        every_s: length of the windows that are described one by one, None for the range as a
            whole; `max_frames` then holds for each window.
    """

    fps: float = 2.0
    max_frames: int = 64
    max_pixels: int | None = None
    start_s: float = 0.0
    end_s: float | None = None
    every_s: float | None = None

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
        if self.every_s is not None and not 0.1 <= self.every_s <= 1e6:
            raise UsageError(f"--every must be at least 0.1 s, not {self.every_s:g} s")


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """How text is generated.

    Attributes:
        max_tokens: most tokens to generate, the stop token included.
        repetition_penalty: None for the value in the target's generation_config.
        temperature: 0 for greedy decoding, above it for sampling.
        top_p: sample from the fewest most likely tokens that hold this mass.
        seed: of the samples, None for a new one each time.
    """

    max_tokens: int = 256
    repetition_penalty: float | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise UsageError(f"--max-tokens must be at least 1, not {self.max_tokens}")
        if self.repetition_penalty is not None and self.repetition_penalty <= 0:
            raise UsageError("the repetition penalty must be above 0")
        if not 0 <= self.temperature <= 100:
            raise UsageError(f"--temperature must be between 0 and 100, not {self.temperature:g}")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"--top-p must be above 0 and at most 1, not {self.top_p:g}")


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
        quantize, draft_quantize: whether the weights of target and draft are packed, and how.
        attention: ``auto`` takes the flash kernel where it runs, ``sdpa`` does without it,
            ``flash`` refuses to run where it does not.
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
    quantize: QuantizeName = "none"
    draft_quantize: QuantizeName = "none"
    attention: AttentionName = "auto"


@dataclass(frozen=True, slots=True)
class SpeculationSettings:
    """A speculative method, taken apart.

    Attributes:
        method: the preset's name, kept for the record.
        draft: who proposes: nobody, the pair's draft model, the target itself on fewer visual
            tokens, or a look at the text so far.
        tree: shape of what is drafted per round.
        draft_tokens: length of a drafted chain.
        verify: who judges the drafts; ``strict`` is lossless, ``loose`` lets some drafts stand that
            the target would not have chosen.
        loose_rule: LVSpec (visual relevance), FLy (the target's uncertainty), or chance, a control.
        loose_fraction: share of a round's drafts that LVSpec lets stand unchecked (lambda).
        lvspec_mode: ours, with guards, or the rule as published.
        lvspec_top_n: cosines per token that make its visual relevance (N).
        lvspec_shift: whether a token that the draft has a little later may stand.
        loose_delta: probability that the target must give a token that is not its choice.
        fly_mode: FLy as published, or as its authors' program does it.
        fly_theta: entropy from which the target counts as unsure.
        fly_window: drafts that must match behind a forgiven one.
        viskip: share of the attention on the video from which a round is not drafted, None for
            never.
        prefill: the draft's vision tower and prefill behind the target's, or beside them.
        arms: drafts that take turns by how often each was right lately: the draft model on the
            full video, on a pruned one, on the text alone, and a look at the text so far; None
            for one draft, by `draft` and `prune`.
        prune: share of the draft's visual tokens that is dropped, 0 to 1.
        prune_by: what decides which ones.
        prune_select: how scores become a selection (``uniform`` and ``random`` use none).
        kept_positions: kept tokens keep their true positions, or are numbered without gaps.
        top_p_mass: share of the score that SpecVLM's first selection stage holds (lambda_r).
        uv_layer: layer L of UV-Prune, None for a quarter of the target's depth.
        prune_seed: of ``random``.
        tree_nodes, tree_depth, tree_width: form of the dynamic tree.
        entropy_sure, entropy_unsure: thresholds of the entropy tree, shares of log V.
        lookup_ngram: longest suffix that prompt lookup searches for.
        lookup_branch: tokens of a lookup branch that is added to every tree, 0 for none.
        summary: one line for help.
    """

    method: str = "plain"
    draft: DraftName = "none"
    tree: TreeName = "chain"
    draft_tokens: int = 5
    verify: Literal["strict", "loose"] = "strict"
    loose_rule: LooseName = "lvspec"
    loose_fraction: float = 0.7
    lvspec_mode: Literal["guarded", "paper"] = "guarded"
    lvspec_top_n: int = 10
    lvspec_shift: Literal["on", "off"] = "on"
    loose_delta: float = 0.05
    fly_mode: Literal["paper", "code"] = "paper"
    fly_theta: float = 0.3
    fly_window: int = 6
    viskip: float | None = None
    prefill: PrefillName = "sequential"
    arms: tuple[ArmName, ...] | None = None
    prune: float = 0.0
    prune_by: PruneName = "attention"
    prune_select: Literal["two-stage", "top", "stratified"] = "two-stage"
    kept_positions: Literal["original", "compact"] = "original"
    top_p_mass: float = 0.4
    uv_layer: int | None = None
    prune_seed: int = 0
    tree_nodes: int = 30
    tree_depth: int = 4
    tree_width: int = 8
    entropy_sure: float = 0.02
    entropy_unsure: float = 0.15
    lookup_ngram: int = 4
    lookup_branch: int = 0
    summary: str = ""

    def __post_init__(self) -> None:
        for name, (least, most) in PART_RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise UsageError(
                    f"{name.replace('_', '-')} must be between {least:g} and {most:g}, "
                    f"not {value:g}"
                )
        if self.draft == "self" and self.kept_positions == "compact":
            raise UsageError("self-drafting keeps the target's rows: kept-positions=original")
        if self.tree == "dynamic" and self.tree_nodes > self.tree_width * (
            1 + (self.tree_depth - 1) * self.tree_width
        ):
            raise UsageError("tree-nodes is more than tree-depth and tree-width allow")
        if self.arms is not None:
            self._check_arms(self.arms)
        fly = self.verify == "loose" and self.loose_rule == "fly"
        if fly and (self.tree != "chain" or self.lookup_branch):
            raise UsageError("FLy judges chains only: tree=chain and lookup-branch=0")

    def _check_arms(self, arms: tuple[ArmName, ...]) -> None:
        if len(arms) < 2 or len(set(arms)) < len(arms):
            raise UsageError("arms takes two or more different ones")
        if self.tree == "auto":
            raise UsageError("arms need a tree of their own, for example tree=chain")
        if "pruned" in arms and not 0 < self.prune < 1:
            raise UsageError("arm 'pruned' needs a share between 0 and 1, for example prune=0.9")

    @property
    def needs_draft(self) -> bool:
        """Whether a draft model has to be loaded."""
        return self.draft == "pair"

    @property
    def model_arms(self) -> int:
        """How many of the arms run the draft model."""
        return sum(arm != "lookup" for arm in self.arms or ())

    @property
    def speculates(self) -> bool:
        """Whether anything is drafted."""
        return self.draft != "none"

    def parts(self) -> frozenset[str]:
        """Names of the fields that make a difference to this method."""
        if self.draft == "none":
            return frozenset()
        if self.draft == "lookup":
            return frozenset({"draft_tokens", "lookup_ngram", "viskip"})
        names = {"tree", "lookup_branch", "verify", "viskip"} | _TREE_PARTS[self.tree]
        if self.draft == "pair":
            names |= {"prefill", "arms"}
        if self.verify == "loose":
            names |= {"loose_rule"} | _LOOSE_PARTS[self.loose_rule]
        if self.lookup_branch or "lookup" in (self.arms or ()):
            names.add("lookup_ngram")
        if self.arms is None or "pruned" in self.arms:
            names.add("prune")
            if self.prune > 0:
                names |= {"prune_by", "kept_positions"} | _PRUNE_PARTS[self.prune_by]
        return frozenset(names)


#: Least and most of each part of a method that is a number.
PART_RANGES: dict[str, tuple[float, float]] = {
    "draft_tokens": (1, 64),
    "prune": (0, 1),
    "top_p_mass": (0, 1),
    "uv_layer": (1, 1000),
    "tree_nodes": (1, 256),
    "tree_depth": (1, 16),
    "tree_width": (1, 32),
    "entropy_sure": (0, 1),
    "entropy_unsure": (0, 1),
    "loose_fraction": (0, 1),
    "lvspec_top_n": (1, 10_000),
    "loose_delta": (0, 1),
    "fly_theta": (0, 100),
    "fly_window": (1, 64),
    "viskip": (0, 1),
    "lookup_ngram": (1, 16),
    "lookup_branch": (0, 64),
}

_TREE_PARTS: dict[str, set[str]] = {
    "chain": {"draft_tokens"},
    "static": set(),
    "dynamic": {"tree_nodes", "tree_depth", "tree_width"},
    "entropy": {"entropy_sure", "entropy_unsure"},
    "auto": set(),
}

_PRUNE_PARTS: dict[str, set[str]] = {
    "attention": {"prune_select", "top_p_mass"},
    "uv": {"prune_select", "top_p_mass", "uv_layer"},
    "uniform": set(),
    "random": {"prune_seed"},
}

_LOOSE_PARTS: dict[str, set[str]] = {
    "lvspec": {"loose_fraction", "lvspec_mode", "lvspec_top_n", "lvspec_shift", "loose_delta"},
    "fly": {"fly_mode", "fly_theta", "fly_window"},
    "random": {"loose_fraction", "loose_delta"},
}

#: Method presets as plain data. A new method is a new line here and its classes in the engine.
METHODS: dict[str, SpeculationSettings] = {
    preset.method: preset
    for preset in (
        SpeculationSettings(
            "auto",
            "pair",
            "auto",
            summary="a tree that grows as long as that pays by measured cost, maybe nothing",
        ),
        SpeculationSettings("plain", summary="one token per target call, no draft"),
        SpeculationSettings("sd", "pair", summary="a chain of drafted tokens"),
        SpeculationSettings("sd-tree", "pair", "static", summary="SpecVLM's 25-node static tree"),
        SpeculationSettings(
            "specvlm",
            "pair",
            "static",
            prune=0.9,
            kept_positions="compact",
            summary="that tree, the draft seeing the tenth of the video that the question "
            "attends to",
        ),
        SpeculationSettings(
            "parallelvlm",
            "pair",
            prune=0.9,
            prune_by="uv",
            prune_select="top",
            prefill="parallel",
            summary="a chain by a draft that is prefilled beside the target, on the tenth of the "
            "video that the question moves towards in early layers",
        ),
        SpeculationSettings(
            "lvspec",
            "pair",
            draft_tokens=10,
            prune=0.9,
            prune_by="uniform",
            verify="loose",
            summary="NOT lossless: drafts with little visual content stand unchecked (LVSpec)",
        ),
        SpeculationSettings(
            "fly",
            "pair",
            draft_tokens=10,
            prune=0.9,
            prune_by="uniform",
            verify="loose",
            loose_rule="fly",
            summary="NOT lossless: lone mismatches stand where the target is unsure (FLy)",
        ),
        SpeculationSettings(
            "lookup", "lookup", draft_tokens=10, summary="drafts from the text so far, no model"
        ),
        SpeculationSettings(
            "self",
            "self",
            prune=0.9,
            summary="the target drafts for itself on a tenth of the video",
        ),
    )
}

DEFAULT_METHOD = "auto"

#: Visual share of the attention from which ViSkip leaves a round undrafted, as published.
VISKIP_THRESHOLD = 0.35


def method_settings(name: str, **overrides: Any) -> SpeculationSettings:
    """The preset ``name`` with every override that is not None applied.

    Raises:
        UsageError: for an unknown method, or a part that makes no difference to it.
    """
    preset = METHODS.get(name)
    if preset is None:
        raise UsageError(f"unknown method '{name}'", hint="methods: " + ", ".join(METHODS))
    given = {key: value for key, value in overrides.items() if value is not None}
    unknown = given.keys() - {field.name for field in fields(SpeculationSettings)}
    if unknown:
        raise UsageError(f"unknown speculation setting '{sorted(unknown)[0]}'")
    settings = replace(preset, **given)
    idle = sorted(given.keys() - settings.parts())
    if idle:
        of_a_tree = any(idle[0] in parts for parts in _TREE_PARTS.values())
        raise UsageError(
            f"{idle[0].replace('_', '-')} makes no difference to method '{name}'"
            + (f" with tree '{settings.tree}'" if of_a_tree and settings.needs_draft else ""),
            hint=part_owners(idle[0]),
        )
    return settings


def part_owners(name: str) -> str | None:
    """Which methods have the part `name` of the settings, as a hint.

    Where none has it as it stands, the trees, prunings or loose rules that have it.
    """
    owners = [method for method, preset in METHODS.items() if name in preset.parts()]
    tables = {"tree": _TREE_PARTS, "prune-by": _PRUNE_PARTS, "loose-rule": _LOOSE_PARTS}
    for key, table in tables.items():
        if not owners:
            owners = [f"{key}={value}" for value, parts in table.items() if name in parts]
    return "it belongs to: " + ", ".join(owners) if owners else None
