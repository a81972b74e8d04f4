"""``vidcap models``: which pairs and methods there are, what of them is here, fetching them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vidcap.cli import runtime
from vidcap.cli.answers import make_console
from vidcap.cli.completing import complete_name, complete_pair
from vidcap.cli.fetching import fetch_model, stay_offline
from vidcap.cli.options import FactsFormatOptions, HubOptions, MessageOptions
from vidcap.cli.tables import columns, print_facts, size_words
from vidcap.errors import ModelError, UsageError
from vidcap.parts import field_name, part_keys, part_values
from vidcap.settings import METHODS, ModelSettings, SpeculationSettings

if TYPE_CHECKING:
    from vidcap.models.catalogue import ModelState, PairState


_Model = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A pair preset, TARGET+DRAFT, a hub id or a folder.",
        autocompletion=complete_pair,
    ),
]


def list_models(format: FactsFormatOptions, messages: MessageOptions) -> int:
    """List pair presets and methods, and what is cached."""
    from vidcap.models.catalogue import preset_states
    from vidcap.models.hub import cache_folder

    _begin(messages)
    pairs, cache = preset_states(), cache_folder()
    data = {
        "cache": str(cache),
        "pairs": [_pair_data(state) for state in pairs],
        "methods": [{"name": name, "summary": item.summary} for name, item in METHODS.items()],
    }
    print_facts(format.format, data, _list_lines(pairs, str(cache)))
    return 0


def pull(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            help="Pair presets, TARGET+DRAFT or hub ids.",
            autocompletion=complete_pair,
        ),
    ],
    hub: HubOptions,
    format: FactsFormatOptions,
    messages: MessageOptions,
) -> int:
    """Fetch models, or bring them up to date, and print their folders.

    What an interrupted download left is used.
    """
    console = _begin(messages, hub)
    folders: dict[str, str] = {}
    for name in (model for item in names for model in _models_named(item)):
        if _is_local(name):
            folders[name] = str(_state(name, hub).folder)
        else:
            folder = fetch_model(name, hub.revision, offline=hub.offline, console=console)
            folders[name] = str(folder)
    print_facts(format.format, folders, folders.values())
    return 0


def path(
    name: _Model, hub: HubOptions, format: FactsFormatOptions, messages: MessageOptions
) -> int:
    """Print the local folder of a model, or of a pair's target and draft."""
    _begin(messages, hub)
    states = [_state(model, hub) for model in _models_named(name)]
    missing = [state.name for state in states if not state.cached]
    if missing:
        raise ModelError(
            f"model '{missing[0]}' is not cached", hint=f"`vidcap models pull {name}` fetches it"
        )
    folders = {state.name: str(state.folder) for state in states}
    print_facts(format.format, folders, folders.values())
    return 0


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A pair preset, a method, TARGET+DRAFT, a hub id or a folder.",
            autocompletion=complete_name,
        ),
    ],
    hub: HubOptions,
    format: FactsFormatOptions,
    messages: MessageOptions,
) -> int:
    """Show what a pair, a model or a method consists of.

    For a method: all keys that --set takes, with the values that the method gives them.
    """
    _begin(messages, hub)
    if name in METHODS:
        print_facts(format.format, _method_data(name), _method_lines(name))
        return 0
    from vidcap.models.catalogue import model_details

    try:
        names = _models_named(name)
    except UsageError as error:
        hint = f"{error.hint}; methods: {', '.join(METHODS)}" if error.hint else None
        raise UsageError(error.message, hint=hint) from error
    details = [model_details(_state(model, hub)) for model in names]
    if len(details) == 1:
        print_facts(format.format, details[0], _detail_lines(details[0]))
    else:
        roles = dict(zip(("target", "draft"), details, strict=True))
        lines = [f"{role:8}{line}" for role in roles for line in _detail_lines(roles[role])]
        print_facts(format.format, {"name": name, **roles}, lines)
    return 0


def _begin(messages: MessageOptions, hub: HubOptions | None = None) -> Any:
    console = make_console(messages)
    runtime.hush_libraries(console)
    if hub is not None and hub.offline:
        stay_offline()
    return console


def _models_named(name: str) -> list[str]:
    """Target and draft of a pair, or the one model of that name.

    Raises:
        UsageError: it can be neither.
    """
    from vidcap.models.pair import choose_pair

    if name in METHODS:
        raise UsageError(f"'{name}' is a method", hint=f"see vidcap models show {name}")
    pair = choose_pair(ModelSettings(pair=name))
    if pair is None:
        raise UsageError("a name is empty")
    return list(dict.fromkeys(item for item in (pair.target, pair.draft) if item))


def _is_local(name: str) -> bool:
    from vidcap.models.hub import is_hub_id
    from vidcap.models.pair import BUILTIN

    return name.startswith(BUILTIN) or not is_hub_id(name)


def _state(name: str, hub: HubOptions) -> ModelState:
    from vidcap.models.catalogue import model_state

    return model_state(name, hub.revision)


def _pair_data(state: PairState) -> dict[str, Any]:
    return {
        "name": state.preset.name,
        "target": _model_data(state.target),
        "draft": _model_data(state.draft) if state.draft else None,
        "size_bytes": state.size_bytes,
        "cached": state.cached,
        "fits": state.fits,
        "notice": state.preset.notice,
    }


def _model_data(state: ModelState) -> dict[str, Any]:
    folder = str(state.folder) if state.folder else None
    return asdict(state) | {"folder": folder, "cached": state.cached}


def _list_lines(pairs: list[PairState], cache: str) -> list[str]:
    rows = [("pair", "target", "draft", "size", "cached", "fits")]
    for state in pairs:
        rows.append(
            (
                state.preset.name,
                _where(state.target, state),
                _where(state.draft, state) if state.draft else "-",
                size_words(state.size_bytes),
                _cached_words(state),
                "yes" if state.fits else "no",
            )
        )
    methods = [("method", "drafts"), *((name, item.summary) for name, item in METHODS.items())]
    return [*columns(rows), "", *columns(methods), "", f"cache: {cache}"]


def _where(model: ModelState, pair: PairState) -> str:
    return "comes with vidcap" if pair.preset.builtin else model.name


def _cached_words(state: PairState) -> str:
    if state.preset.builtin or state.cached:
        return "yes"
    here = [
        name for name, model in zip(("target", "draft"), state.models, strict=False) if model.cached
    ]
    return f"{here[0]} only" if here else "no"


def _detail_lines(details: dict[str, Any]) -> list[str]:
    context = details["context_tokens"]
    rows = [
        ("model", details["name"]),
        ("folder", details["folder"] or "not cached"),
        ("size", size_words(details["size_bytes"])),
        ("family", details["family"]),
        ("parameters", _count_words(details["parameters"])),
        ("layers", str(details["layers"])),
        ("width", str(details["hidden_size"])),
        ("key/value heads", f"{details['kv_heads']} of {details['head_dim']}"),
        ("vocabulary", str(details["vocabulary"])),
        ("context", "?" if context is None else f"{context} tokens"),
        ("stop tokens", " ".join(details["stop_tokens"])),
        ("placeholders", " ".join(details["placeholders"])),
    ]
    return columns(rows)


def _count_words(count: int) -> str:
    return f"{count / 1e9:.2f} billion" if count >= 1e9 else f"{count / 1e6:.2f} million"


def _method_data(name: str) -> dict[str, Any]:
    method = METHODS[name]
    return {
        "name": name,
        "summary": method.summary,
        "drafts_with": method.draft,
        "settings": {key: getattr(method, field_name(key)) for key in part_keys()},
        "in_use": [key for key in part_keys() if field_name(key) in method.parts()],
    }


def _method_lines(name: str) -> list[str]:
    method = METHODS[name]
    rows = [("key", "value", "in use", "may be")]
    for key in part_keys():
        used = "yes" if field_name(key) in method.parts() else "no"
        rows.append((key, _value_words(method, key), used, part_values(key)))
    return [f"{name}: {method.summary}", f"drafts with: {method.draft}", "", *columns(rows)]


def _value_words(method: SpeculationSettings, key: str) -> str:
    value = getattr(method, field_name(key))
    if isinstance(value, tuple):
        return "+".join(value)
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
