"""A speculative method, taken apart: its parts, their ranges, and when they matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vidcap.errors import UsageError

TreeName = Literal["chain", "static", "dynamic", "entropy", "auto"]
PruneName = Literal["attention", "uv", "uniform", "random"]
LooseName = Literal["lvspec", "fly", "random"]
DraftName = Literal["none", "pair", "self", "lookup"]
PrefillName = Literal["sequential", "parallel"]
SelectName = Literal["auto", "two-stage", "top", "stratified"]
UVTextName = Literal["question", "prompt"]
ArmName = Literal["full", "pruned", "text", "lookup"]

#: Least and most of each part of a method that is a number.
PART_RANGES: dict[str, tuple[float, float]] = {
    "draft_tokens": (1, 64),
    "prefill_chunk": (0, 1_000_000),
    "prune": (0, 1),
    "top_p_mass": (0, 1),
    "uv_layer": (1, 1000),
    "uv_base": (0, 999),
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

#: What makes a difference with each tree, pruning and loose rule.
TREE_PARTS: dict[str, set[str]] = {
    "chain": {"draft_tokens"},
    "static": set(),
    "dynamic": {"tree_nodes", "tree_depth", "tree_width"},
    "entropy": {"entropy_sure", "entropy_unsure"},
    "auto": set(),
}

PRUNE_PARTS: dict[str, set[str]] = {
    "attention": {"prune_select", "top_p_mass"},
    "uv": {"prune_select", "top_p_mass", "uv_layer", "uv_base", "uv_text"},
    "uniform": set(),
    "random": {"prune_seed"},
}

LOOSE_PARTS: dict[str, set[str]] = {
    "lvspec": {
        *("loose_fraction", "loose_delta", "guard_words"),
        *("lvspec_mode", "lvspec_top_n", "lvspec_shift"),
    },
    "fly": {"fly_mode", "fly_theta", "fly_window"},
    "random": {"loose_fraction", "loose_delta", "guard_words"},
}


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
        loose_fraction: share of a round's drafts that LVSpec lets stand unchecked (lambda); None
            for all that no guard holds, and for the published 0.7 where there are none.
        lvspec_mode: ours, with guards, or the rule as published.
        lvspec_top_n: cosines per token that make its visual relevance (N).
        lvspec_shift: whether a token that the draft has a little later may stand.
        loose_delta: probability that the target must give a token that is not its choice.
        guard_words: whether words that a fact hangs on must match: colours, places, sizes,
            order in time.
        fly_mode: FLy as published, or as its authors' program does it.
        fly_theta: entropy from which the target counts as unsure.
        fly_window: drafts that must match behind a forgiven one.
        viskip: share of the attention on the video from which a round is not drafted, None for
            never.
        prefill: the draft's vision tower and prefill behind the target's, or beside them.
        startup: whether a draft that is ready before the target drafts behind its own guess of the
            first token (``prefill`` parallel).
        prefill_chunk: most prompt rows up to the end of the video that either model runs in one
            call, 0 for all of them.
        shared_tower: whether the draft takes over what the target's vision tower computed, where
            both models have the same one.
        arms: drafts that take turns by how often each was right lately: the draft model on the
            full video, on a pruned one, on the text alone, and a look at the text so far; None
            for one draft, by `draft` and `prune`.
        prune: share of the draft's visual tokens that is dropped, 0 to 1.
        prune_by: what decides which ones.
        prune_select: how scores become a selection (``uniform`` and ``random`` use none); ``auto``
            is what was published with the score: SpecVLM's two stages for ``attention``, the
            highest scores for ``uv``.
        kept_positions: kept tokens keep their true positions, or are numbered without gaps.
        top_p_mass: share of the score that SpecVLM's first selection stage holds (lambda_r).
        uv_layer: layer L of UV-Prune, None for a quarter of the target's depth.
        uv_base: the layer that its sum starts from, 0 for the embeddings.
        uv_text: the text that it compares with: behind the video, or all of the prompt.
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
    loose_fraction: float | None = None
    lvspec_mode: Literal["guarded", "paper"] = "guarded"
    lvspec_top_n: int = 10
    lvspec_shift: Literal["on", "off"] = "on"
    loose_delta: float = 0.05
    guard_words: Literal["on", "off"] = "on"
    fly_mode: Literal["paper", "code"] = "paper"
    fly_theta: float = 0.3
    fly_window: int = 6
    viskip: float | None = None
    prefill: PrefillName = "sequential"
    startup: Literal["on", "off"] = "on"
    prefill_chunk: int = 0
    shared_tower: Literal["on", "off"] = "on"
    arms: tuple[ArmName, ...] | None = None
    prune: float = 0.0
    prune_by: PruneName = "attention"
    prune_select: SelectName = "auto"
    kept_positions: Literal["original", "compact"] = "original"
    top_p_mass: float = 0.4
    uv_layer: int | None = None
    uv_base: int = 0
    uv_text: UVTextName = "question"
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
    def shares_tower(self) -> bool:
        """Whether the target's vision tower may serve a draft model, which sees the video."""
        sees = self.prune < 1 if self.arms is None else {"full", "pruned"} & set(self.arms)
        return self.needs_draft and bool(sees) and self.shared_tower == "on"

    @property
    def model_arms(self) -> int:
        """How many of the arms run the draft model."""
        return sum(arm != "lookup" for arm in self.arms or ())

    @property
    def loosened_share(self) -> float:
        """`loose_fraction`, or what None stands for."""
        if self.loose_fraction is not None:
            return self.loose_fraction
        guarded = self.loose_rule == "lvspec" and self.lvspec_mode == "guarded"
        return 1.0 if guarded else 0.7

    @property
    def ranks_relevance(self) -> bool:
        """Whether drafts are ranked by their relevance to the video, to let some of them stand."""
        lvspec = self.verify == "loose" and self.loose_rule == "lvspec"
        return lvspec and 0 < self.loosened_share < 1

    @property
    def speculates(self) -> bool:
        """Whether anything is drafted."""
        return self.draft != "none"

    def parts(self) -> frozenset[str]:
        """Names of the fields that make a difference to this method."""
        if self.draft == "none":
            return frozenset({"prefill_chunk"})
        if self.draft == "lookup":
            return frozenset({"draft_tokens", "lookup_ngram", "viskip", "prefill_chunk"})
        names = {"prefill_chunk", "tree", "lookup_branch", "verify", "viskip"} | TREE_PARTS[
            self.tree
        ]
        if self.draft == "pair":
            names |= {"prefill", "arms", "shared_tower"}
            beside, learns = self.prefill == "parallel", self.tree == "auto" or bool(self.arms)
            names |= {"startup"} if beside and not learns else set()
        if self.verify == "loose":
            names |= {"loose_rule"} | LOOSE_PARTS[self.loose_rule]
        if self.lookup_branch or "lookup" in (self.arms or ()):
            names.add("lookup_ngram")
        if self.arms is None or "pruned" in self.arms:
            names.add("prune")
            if self.prune > 0:
                names |= {"prune_by", "kept_positions"} | PRUNE_PARTS[self.prune_by]
        return frozenset(names)
