"""Runs the arms clip by clip in one process: in turn, in another order for every clip."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from vidcap.bench.arms import Arm
from vidcap.bench.datasets import Clip, DataSet
from vidcap.bench.metrics import ClipRuns
from vidcap.bench.results import RunStore
from vidcap.bench.runners import ArmRunner, Footage, MethodRunner, TransformersRunner
from vidcap.captioner import Captioner
from vidcap.errors import ModelError, UsageError

#: Target calls of every arm on the first clip before anything counts.
WARM_UP_ROUNDS = 8


class Bench:
    """Arms on one pair, with the runs that are known already.

    Attributes:
        reused: how many runs were in the store already.
        ran_on: ``device`` and ``dtype`` of the target, None before the first run.
    """

    def __init__(
        self,
        captioner: Captioner,
        arms: Sequence[Arm],
        store: RunStore,
        machine: Mapping[str, Any],
        *,
        progress: Callable[[str], None],
        on_error: Callable[[Exception, Clip], None],
    ):
        """Args:
        captioner: with a method that drafts, where an arm does.
        arms: what is compared.
        store: where runs are looked up and kept.
        machine: what it runs on; a run on another machine does not count.
        progress: told what goes on.
        on_error: told of a clip that cannot be used; the others go on.
        """
        self._captioner = captioner
        self._arms = list(arms)
        self._store = store
        self._machine = dict(machine)
        self._progress = progress
        self._on_error = on_error
        self._runners: dict[str, ArmRunner] = {}
        self._warm: set[str] = set()
        self.reused = 0
        self.ran_on: dict[str, Any] = {"device": None, "dtype": None}

    def run(self, data: DataSet) -> list[ClipRuns]:
        """Run what is not in the store yet.

        Returns:
            the runs of every clip on which all arms ran.

        Raises:
            ModelError: nothing can run.
            UsageError: an arm cannot run with this pair, or the prompt cannot be used.
        """
        found: list[ClipRuns] = []
        self._warm.clear()
        for index, clip in enumerate(data.clips):
            place = f"clip {index + 1} of {len(data.clips)}"
            turn = index % len(self._arms)
            try:
                found.append(self._run_clip(clip, place, self._arms[turn:] + self._arms[:turn]))
            except (ModelError, UsageError):
                raise
            except Exception as error:
                self._on_error(error, clip)
        return found

    def _run_clip(self, clip: Clip, place: str, arms: Sequence[Arm]) -> ClipRuns:
        keys = {arm.name: self._key(clip, arm) for arm in arms}
        todo = [arm for arm in arms if self._store.get(keys[arm.name]) is None]
        self.reused += len(arms) - len(todo)
        if todo:
            self._progress(f"{place}: decoding")
            footage = self._decode(clip)
            for arm in todo:
                self._warm_up(arm, clip, footage)
            for arm in todo:
                self._progress(f"{place}: {arm.name}")
                self._store.add(self._runner(arm).run(clip, footage, keys[arm.name]))
        found = {name: self._store.get(key) for name, key in keys.items()}
        runs = {name: run for name, run in found.items() if run is not None}
        for run in runs.values():
            self.ran_on = {"device": run.device, "dtype": run.dtype}
        return runs

    def _warm_up(self, arm: Arm, clip: Clip, footage: Footage) -> None:
        if arm.name not in self._warm:
            self._progress(f"warming up {arm.name}")
            self._runner(arm).run(clip, footage, "", WARM_UP_ROUNDS)
            self._warm.add(arm.name)

    def _decode(self, clip: Clip) -> Footage:
        begin = time.perf_counter()
        frames = self._captioner.decode(clip.path)
        return Footage(frames, time.perf_counter() - begin)

    def _runner(self, arm: Arm) -> ArmRunner:
        if arm.name not in self._runners:
            if arm.speculation is None:
                self._runners[arm.name] = TransformersRunner(self._captioner, arm.name)
            else:
                variant = self._captioner.variant(arm.speculation)
                self._runners[arm.name] = MethodRunner(variant, arm.name)
        return self._runners[arm.name]

    def _key(self, clip: Clip, arm: Arm) -> str:
        """Equal where everything is that a run depends on."""
        settings = shared_settings(self._captioner)
        if not arm.needs_draft:
            del settings["draft"], settings["draft_device"], settings["draft_quantize"]
        parts = {
            "machine": self._machine,
            "settings": settings,
            "arm": [arm.name, arm.settings()],
            "clip": [clip.name, clip.identity, clip.prompt],
            "truth": [clip.truth, clip.answer, clip.question_kind],
        }
        text = json.dumps(parts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


def shared_settings(captioner: Captioner) -> dict[str, Any]:
    """What all arms have in common, as JSON types."""
    model, part = captioner.model, captioner.model_part()
    return {
        "pair": part.pair,
        "target": part.target,
        "draft": part.draft,
        "revision": model.revision,
        "device": model.device,
        "draft_device": model.draft_device,
        "dtype": model.dtype,
        "attn": model.attention,
        "quantize": model.quantize,
        "draft_quantize": model.draft_quantize,
        "positions": model.positions,
        "video": asdict(captioner.video),
        "generation": asdict(captioner.generation),
    }
