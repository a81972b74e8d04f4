"""The demo data set: clips rendered from seeds, as real MP4 files of about a wanted length."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from vidcap.bench.datasets import Clip, DataSet
from vidcap.demo.clips import write_mp4
from vidcap.demo.questions import questions_of
from vidcap.demo.scenes import World, sample_scene, truth
from vidcap.demo.world import DEMO_WORLD_OF_ANY_LENGTH
from vidcap.errors import InputError
from vidcap.models.geometry import Geometry
from vidcap.settings import DEFAULT_DESCRIBE_PROMPT, VideoSettings
from vidcap.video import plan_sampling

#: Lengths off by less than this share need no notice; those within the other count as equal.
_TOLERANCE, _ALIKE = 0.15, 0.05


def render_dataset(
    folder: Path,
    geometry: Geometry,
    video: VideoSettings,
    *,
    count: int,
    seed: int,
    visual_tokens: int,
    prompt: str | None = None,
    world: World = DEMO_WORLD_OF_ANY_LENGTH,
    ask: bool = False,
    progress: Callable[[str], None] = lambda words: None,
) -> DataSet:
    """Render `count` clips, from the seeds `seed`, `seed` + 1 ..., into a folder.

    Args:
        folder: where the files go, made where it is missing.
        geometry: of the target, which decides how many tokens a clip has.
        video: which frames are sampled.
        visual_tokens: how many visual tokens a clip should have. What the world knows no clip for
            gives the nearest that it does know, with a notice.
        prompt: the words for the model, None for the usual ones.
        ask: whether questions are asked about each clip as well, one of every kind that it allows.
        progress: told what goes on.

    Raises:
        InputError: the sampled range lies behind the end of every clip of this world.
    """
    narrowed, tokens = world_of_length(geometry, video, visual_tokens, world)
    folder.mkdir(parents=True, exist_ok=True)
    clips = []
    for k in range(count):
        progress(f"rendering clip {k + 1} of {count}")
        scene = sample_scene(seed + k, narrowed)
        path = folder / f"clip_{k:05d}.mp4"
        write_mp4(scene, path)
        described = Clip(
            name=f"demo {scene.seed}",
            path=path,
            identity=hashlib.sha256(path.read_bytes()).hexdigest(),
            prompt=prompt or DEFAULT_DESCRIBE_PROMPT,
            truth=truth(scene),
        )
        clips.append(described)
        if ask:
            clips += _asked(described, scene.seed)
    off = abs(tokens - visual_tokens) > _TOLERANCE * visual_tokens
    notice = (
        f"no demo clip has about {visual_tokens} visual tokens; these have {tokens}"
        if off
        else None
    )
    return DataSet(tuple(clips), visual_tokens, notice)


def _asked(described: Clip, seed: int) -> list[Clip]:
    """A clip with each of its questions in place of the prompt."""
    if described.truth is None:
        raise ValueError("questions need to know what is true")
    found = questions_of(dict(described.truth), np.random.default_rng(seed))
    return [
        replace(
            described,
            name=f"{described.name}, {one.kind}",
            prompt=one.text,
            answer=one.answer,
            question_kind=one.kind,
        )
        for one in found
    ]


def world_of_length(
    geometry: Geometry,
    video: VideoSettings,
    visual_tokens: int,
    world: World = DEMO_WORLD_OF_ANY_LENGTH,
) -> tuple[World, int]:
    """The part of a world whose clips have about `visual_tokens` visual tokens, and how many.

    That is the nearest number that a clip of this world can have (the smaller one of two equally
    near ones); all kinds of clips that come within a few per cent of it are kept together.

    Raises:
        InputError: the sampled range lies behind the end of every clip.
    """
    lengths = _lengths(geometry, video, world)
    nearest = min(lengths.values(), key=lambda tokens: (abs(tokens - visual_tokens), tokens))
    alike = tuple(
        kind for kind, tokens in lengths.items() if abs(tokens - nearest) <= _ALIKE * nearest
    )
    return replace(world, lengths=alike), nearest


def _lengths(
    geometry: Geometry, video: VideoSettings, world: World
) -> dict[tuple[int, int, float, float], int]:
    """Visual tokens of every kind of clip (see :meth:`World.combinations`)."""
    lengths = {}
    reason: InputError | None = None
    for kind in world.combinations():
        width, height, duration_s, _ = kind
        try:
            count = len(plan_sampling(video, duration_s).targets)
        except InputError as error:
            reason = error
            continue
        size = geometry.frame_size(count, height, width, video.max_pixels)
        lengths[kind] = geometry.visual_tokens(count, *size)
    if not lengths:
        raise reason or InputError("this world has no clips")
    return lengths
