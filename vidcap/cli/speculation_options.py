"""Options of the speculative methods and of their parts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated, Any, Literal

from vidcap.cli.binding import option
from vidcap.cli.completing import complete_method, complete_part
from vidcap.errors import UsageError
from vidcap.parts import field_name, parse_fixed, parse_part, part_keys, to_fields
from vidcap.settings import (
    DEFAULT_METHOD,
    METHODS,
    VISKIP_THRESHOLD,
    LooseName,
    PruneName,
    SpeculationSettings,
    TreeName,
    method_settings,
)

_speculation = partial(option, panel="Speculation")


def _methods_help() -> str:
    lines = [f"{name}: {preset.summary}" for name, preset in METHODS.items()]
    return "How tokens are decoded. " + "; ".join(lines) + "."


#: Parts that have an option of their own.
_OWN_OPTION = {"tree", "draft-tokens", "prune", "prune-by", "verify", "loose-rule"}
_OWN_OPTION |= {"loose-fraction"}
_OTHER_PARTS = [key for key in part_keys() if key not in _OWN_OPTION]


@dataclass(frozen=True, slots=True)
class PartOptions:
    """Parts of a method, set by themselves."""

    draft_tokens: Annotated[
        str | None,
        _speculation(
            "--draft-tokens",
            metavar="auto|N",
            help="Length of the drafted chain; auto drafts a tree that grows as long as that pays "
            "by measured cost (--tree auto).",
            show_default=", ".join(
                f"{name} {item.draft_tokens}"
                for name, item in METHODS.items()
                if "draft_tokens" in item.parts()
            ),
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
        """What was set by its own option, by the names of the settings.

        Raises:
            UsageError: where two of them contradict each other.
        """
        self._check_looseness()
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        del values["set"]
        if self.draft_tokens is not None:
            values["draft_tokens"] = parse_part("draft-tokens", self.draft_tokens)
        values["viskip"] = VISKIP_THRESHOLD if self.viskip else None
        if self.verify is None and (self.loose_rule or self.loose_fraction is not None):
            values["verify"] = "loose"
        return {name: value for name, value in values.items() if value is not None}

    def _check_looseness(self) -> None:
        loose = {"--loose-rule": self.loose_rule, "--loose-fraction": self.loose_fraction}
        given = [name for name, value in loose.items() if value is not None]
        if self.verify == "strict" and given:
            raise UsageError(f"--verify strict and {given[0]} contradict each other")
        if self.loose_rule == "fly" and self.loose_fraction is not None:
            raise UsageError("--loose-rule fly has no --loose-fraction")

    def overrides(self) -> dict[str, Any]:
        """Everything that was set, ``--set`` included.

        Raises:
            UsageError: for an unknown key, a value that makes no sense, a part set twice.
        """
        given, named = self.given(), parse_fixed(self.set or [])
        if self.viskip is False and "viskip" in named:
            raise UsageError("--no-viskip and --set viskip contradict each other")
        for key, text in named.items():
            if field_name(key) in given:
                raise UsageError(f"'{key}' is given twice")
            given[field_name(key)] = parse_part(key, text)
        return to_fields(given)


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
        overrides = self.parts.overrides()
        try:
            settings = method_settings(name, **overrides)
        except UsageError as error:
            if self.method or not overrides:
                raise
            hint = f"--method names another method than {name}, `vidcap models list` lists them"
            both = "; ".join(filter(None, (error.hint, hint)))
            raise UsageError(error.message, hint=both) from error
        if settings.needs_draft and not use_draft:
            raise UsageError(f"--method {name} needs a draft, --no-draft takes it away")
        return settings
