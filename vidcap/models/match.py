"""Whether two checkpoints make a pair: what one writes must be what the other reads."""

from __future__ import annotations

from collections.abc import Sequence

from vidcap.errors import ModelError
from vidcap.models.checkpoint import Checkpoint
from vidcap.models.geometry import FAMILIES

#: Characters of a chat template that are shown before and after its first difference.
_CONTEXT = 16


def check_match(target: Checkpoint, draft: Checkpoint) -> None:
    """Make sure that the draft can write for the target, and sees the same visual tokens.

    The number of embedding rows may differ: sizes of a family pad their vocabularies differently.

    Raises:
        ModelError: tokenizer, chat template, visual placeholders, visual tokens or stop tokens
            differ; it says which, and how.
    """
    for what, difference in (
        ("tokenizers", _tokenizer_difference),
        ("visual placeholders", _placeholder_difference),
        ("chat templates", _template_difference),
        ("visual tokens", _visual_difference),
        ("stop tokens", _stop_difference),
    ):
        words = difference(target, draft)
        if words:
            raise ModelError(
                f"target and draft do not make a pair: their {what} differ ({words})",
                hint="use two sizes of the same model family and version; supported are "
                + ", ".join(family.label for family in FAMILIES.values()),
            )


def _tokenizer_difference(target: Checkpoint, draft: Checkpoint) -> str | None:
    ours, theirs = target.tokenizer.get_vocab(), draft.tokenizer.get_vocab()
    if ours == theirs:
        return None
    other = sorted(token for token in ours if ours[token] != theirs.get(token))
    if not other:
        return f"the draft has {len(theirs) - len(ours)} tokens more"
    return f"{len(other)} of {len(ours)} tokens have other ids, {other[0]!r} for one"


def _template_difference(target: Checkpoint, draft: Checkpoint) -> str | None:
    ours, theirs = target.render(""), draft.render("")
    if ours == theirs:
        return None
    pairs = enumerate(zip(ours, theirs, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(ours), len(theirs)))
    begin = max(0, same - _CONTEXT)
    pieces = [text[begin : same + _CONTEXT] for text in (ours, theirs)]
    return f"{pieces[0]!r} and {pieces[1]!r}"


def _placeholder_difference(target: Checkpoint, draft: Checkpoint) -> str | None:
    ours, theirs = target.rules.placeholder_ids, draft.rules.placeholder_ids
    return None if ours == theirs else f"ids {list(ours)} and {list(theirs)}"


def _visual_difference(target: Checkpoint, draft: Checkpoint) -> str | None:
    """Kept visual tokens are chosen by the target and have to mean the same to the draft."""
    ours, theirs = _layout(target), _layout(draft)
    if ours == theirs:
        return None
    return f"{target.family.label} has {ours}, {draft.family.label} has {theirs}"


def _layout(checkpoint: Checkpoint) -> str:
    geometry = checkpoint.geometry
    step = geometry.pad_frames(1)
    names = ("factor", "image_size", "patch_size")
    sizes = [f"{name} {getattr(geometry, name)}" for name in names if hasattr(geometry, name)]
    stamped = " behind time stamps" if checkpoint.config.model_type == "qwen3_vl" else ""
    return f"{step} frames per step, " + ", ".join(sizes) + stamped


def _stop_difference(target: Checkpoint, draft: Checkpoint) -> str | None:
    # The target's tokens end an answer; a draft that knows one of them can propose the end.
    ours, theirs = target.rules.stop_ids, draft.rules.stop_ids
    if ours & theirs:
        return None
    return f"{_written(target, sorted(ours))} and {_written(draft, sorted(theirs))}"


def _written(model: Checkpoint, ids: Sequence[int]) -> str:
    return repr("".join(model.tokenizer.convert_ids_to_tokens(list(ids))))
