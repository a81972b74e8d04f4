"""Which device gets which layers of a target, from sizes and free memory. Imports no torch.

A model that one GPU holds lies there. A larger one is spread: embedding, vision tower and output
lie on the first device and so does the draft; the decoder layers go to all of them, each with its
keys and values, so that about the same memory stays free everywhere. What the GPUs have no room for
is left in main memory and brought to the first device whenever it runs, which is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from vidcap.models.facts import ModelFacts
from vidcap.models.machine import Device
from vidcap.models.memory import (
    PROCESS_BYTES,
    USABLE_SHARE,
    fits,
    form_of,
    nominal_load,
    pair_memory,
)
from vidcap.models.parallel import divides
from vidcap.models.work import FLOAT, Form, Load, Work
from vidcap.settings import ModelSettings

#: Places that weights are only kept in, where there is a device before them.
KEEPS_ONLY = ("cpu", "disk")

_UNKNOWN = 1 << 62


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a model lies.

    Attributes:
        first: device of everything but the decoder layers; states enter and leave the model there.
        layers: device of every decoder layer's weights, empty where all are on `first`. Layers in
            a place that only keeps weights run on `first`.
        ranks: device of every rank where all of them share each layer, `first` the first; empty
            where there is one process.
    """

    first: str
    layers: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """Every device, the first one first."""
        return tuple(dict.fromkeys((self.first, *self.layers, *self.ranks)))

    @property
    def kept_elsewhere(self) -> int:
        """Layers whose weights are brought to the first device whenever they run."""
        return sum(name in KEEPS_ONLY and name != self.first for name in self.layers)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about it."""
        if not self.kept_elsewhere:
            return ()
        return (
            f"{self.kept_elsewhere} of the target's {len(self.layers)} layers have no room on the "
            "GPUs and stay in main memory, which is slow; a smaller pair would be fast",
        )


@dataclass(frozen=True, slots=True)
class Room:
    """A device and the bytes that are free on it."""

    name: str
    free: int


@dataclass(frozen=True, slots=True)
class Shares:
    """What a model that is spread needs, and where; bytes.

    Attributes:
        layers: decoder layers, all of one size.
        weights, keys_values: of one of them.
        first: of everything else on the first device, activations and the draft included.
        others: of each other device for what is no weight, key or value.
    """

    layers: int
    weights: int
    keys_values: int
    first: int
    others: int


def shares_of(target: ModelFacts, draft: ModelFacts | None, load: Load, form: Form) -> Shares:
    """What a target needs that is spread, with its draft on the first device.

    Args:
        target: the model that is spread.
        draft: None where none is loaded or it lies elsewhere.
        load: the request.
        form: how they run; weights are counted as they are loaded, before they are packed.
    """
    work = Work(target, load.prompt_tokens, load, form, form.quantize)
    works = [work]
    if draft is not None:
        alone = replace(form, ranks=1)
        works.append(Work(draft, load.draft_prompt_tokens, load, alone, form.draft_quantize))
    layers = target.layer_parameters * form.size
    moments = [each for item in works for each in (item.vision, item.prefill)]
    drafting = sum(max(item.loaded, item.kept.total) for item in works[1:])
    pixels = load.pixels * 3 * FLOAT
    return Shares(
        layers=target.layers,
        weights=-(-layers // target.layers),
        keys_values=-(-work.kept.keys_values // target.layers),
        first=work.loaded - layers + drafting + pixels + max(moments) + PROCESS_BYTES,
        others=work.prefill + PROCESS_BYTES,
    )


def spread(shares: Shares, rooms: Sequence[Room], spare: Room | None = None) -> Placement | None:
    """Spread the layers in order over devices, evenly in what stays free.

    Args:
        shares: what the model needs.
        rooms: the devices, that of the rest of the model first.
        spare: what takes the layers that none of them has room for; as few as possible.

    Returns:
        the placement, None where there is no room.
    """
    for left in range(shares.layers + 1 if spare else 1):
        if spare is not None and left * shares.weights > spare.free:
            break
        counts = _counts(shares, rooms, left)
        if counts is not None:
            where = [[room.name] * count for room, count in zip(rooms, counts, strict=True)]
            where.append([spare.name] * left if spare else [])
            return Placement(rooms[0].name, tuple(chain.from_iterable(where)))
    return None


def _counts(shares: Shares, rooms: Sequence[Room], left: int) -> list[int] | None:
    """Layers of every device where `left` ones are kept elsewhere, None where they do not fit."""
    # What is kept elsewhere runs on the first device: its keys and values, one layer at a time.
    visiting = left * shares.keys_values + (shares.weights if left else 0)
    free = [room.free - shares.others for room in rooms]
    free[0] = rooms[0].free - shares.first - visiting
    each = shares.weights + shares.keys_values
    if free[0] < 0:
        return None
    counts = [0] * len(rooms)
    for _ in range(shares.layers - left):
        best = max(range(len(rooms)), key=free.__getitem__)
        if free[best] < each:
            return None
        free[best] -= each
        counts[best] += 1
    return counts


def usable(device: Device) -> int:
    """Bytes of a device that models can have, as far as its size tells."""
    if device.memory_bytes is None:
        return _UNKNOWN
    return int(USABLE_SHARE * device.memory_bytes)


def place(
    settings: ModelSettings,
    target: ModelFacts,
    draft: ModelFacts | None,
    devices: Sequence[Device],
    *,
    draft_device: Device | None = None,
    load: Load | None = None,
    free: Callable[[Device], int] = usable,
) -> Placement | None:
    """Where the target of a pair goes, among several devices; None where it has no room.

    Args:
        settings: with device ``auto`` one device is taken where one is enough; devices that are
            named are all used.
        target, draft: the models; draft None where none is loaded.
        devices: where it may go, two or more; a CPU behind GPUs only keeps weights.
        draft_device: of the draft, None for the target's first one.
        load: the request, None for a video of ordinary length.
        free: bytes that are free on a device.
    """
    form, load = form_of(settings, devices[0]), load or nominal_load(target)
    taken = {}
    if draft is not None and draft_device is not None:
        taken[draft_device.name] = _alone(draft, load, form.of_draft(draft_device))
        draft = None
    rooms = [Room(device.name, free(device) - taken.get(device.name, 0)) for device in devices]
    spare = rooms.pop() if rooms[-1].name in KEEPS_ONLY else None
    if settings.device == "auto":
        need = pair_memory(target, draft, load, form).total
        for room in rooms:
            if need <= room.free:
                return Placement(room.name)
    return spread(shares_of(target, draft, load, form), rooms, spare)


def has_room(
    settings: ModelSettings,
    target: ModelFacts,
    draft: ModelFacts | None,
    devices: Sequence[Device],
    draft_device: Device | None = None,
    load: Load | None = None,
) -> bool:
    """Whether a pair fits its devices, no layer of it kept elsewhere.

    Args:
        settings, target, draft, draft_device, load: as for :func:`place`.
        devices: where the target may go, one or more.
    """
    load = load or nominal_load(target)
    form = form_of(settings, devices[0])
    if not divides(target, form.ranks):
        return False
    elsewhere = draft_device if draft is not None else None
    if elsewhere is not None and elsewhere.name not in {device.name for device in devices}:
        need = _alone(draft, load, form.of_draft(elsewhere)) if draft is not None else 0
        if not fits(need, elsewhere):
            return False
        draft = None
    if len(devices) == 1:
        return fits(pair_memory(target, draft, load, form).total, devices[0])
    if form.ranks > 1:
        return _ranks_have_room(target, draft, devices, load, form)
    found = place(settings, target, draft, devices, draft_device=elsewhere, load=load)
    return found is not None and not found.kept_elsewhere


def _ranks_have_room(
    target: ModelFacts, draft: ModelFacts | None, devices: Sequence[Device], load: Load, form: Form
) -> bool:
    """Whether each of several ranks fits its device; the first one has the draft as well."""
    shares = shares_of(target, draft, load, form)
    part = shares.layers * (shares.weights + shares.keys_values) // form.ranks
    other = Work(target, load.prompt_tokens, load, form, form.quantize).of_other_ranks
    needs = [part + shares.first] + [part + other + PROCESS_BYTES] * (len(devices) - 1)
    return all(map(fits, needs, devices))


def _alone(draft: ModelFacts, load: Load, form: Form) -> int:
    """Bytes of a draft on a device of its own."""
    own = replace(load, prompt_tokens=load.draft_prompt_tokens)
    return pair_memory(draft, None, own, form).total
