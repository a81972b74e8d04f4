"""The demo data set: clips rendered from seeds, as real MP4 files of about a wanted length."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from vidcap.bench.datasets import Clip, DataSet
from vidcap.demo.clips import write_mp4
from vidcap.demo.scenes import FIRST_WORLD, World, sample_scene, truth
from vidcap.errors import InputError
from vidcap.models.geometry import Geometry
from vidcap.settings import DEFAULT_DESCRIBE_PROMPT, VideoSettings
from vidcap.video import plan_sampling

#: Lengths off by less than this share need no notice.
_TOLERANCE = 0.15


def render_dataset(
    folder: Path,
    geometry: Geometry,
    video: VideoSettings,
    *,
    count: int,
    seed: int,
    visual_tokens: int,
    prompt: str | None = None,
    world: World = FIRST_WORLD,
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
        clips.append(
            Clip(
                name=f"demo {scene.seed}",
                path=path,
                identity=hashlib.sha256(path.read_bytes()).hexdigest(),
                prompt=prompt or DEFAULT_DESCRIBE_PROMPT,
                truth=truth(scene),
            )
        )
    off = abs(tokens - visual_tokens) > _TOLERANCE * visual_tokens
    notice = (
        f"no demo clip has about {visual_tokens} visual tokens; these have {tokens}"
        if off
        else None
    )
    return DataSet(tuple(clips), visual_tokens, notice)


def world_of_length(
    geometry: Geometry, video: VideoSettings, visual_tokens: int, world: World = FIRST_WORLD
) -> tuple[World, int]:
    """The part of a world whose clips have about `visual_tokens` visual tokens, and how many.

    Frame sizes and durations that come equally near are kept together as far as they give the same
    number; of two equally near numbers the smaller one is taken.

    Raises:
        InputError: the sampled range lies behind the end of every clip.
    """
    lengths = _lengths(geometry, video, world)
    nearest = min(lengths.values(), key=lambda tokens: (abs(tokens - visual_tokens), tokens))
    # A world combines any of its sizes with any of its durations, so one of the two is fixed.
    duration_s = next(seconds for (_, seconds), tokens in lengths.items() if tokens == nearest)
    sizes = tuple(
        size for size in world.frame_sizes if lengths.get((size[:2], duration_s)) == nearest
    )
    return replace(world, frame_sizes=sizes, durations_s=(duration_s,)), nearest


def _lengths(
    geometry: Geometry, video: VideoSettings, world: World
) -> dict[tuple[tuple[int, int], float], int]:
    """Visual tokens by ((width, height), duration) for all that the world combines."""
    lengths = {}
    reason: InputError | None = None
    for duration_s in world.durations_s:
        try:
            count = len(plan_sampling(video, duration_s).targets)
        except InputError as error:
            reason = error
            continue
        for width, height, _ in world.frame_sizes:
            size = geometry.frame_size(count, height, width, video.max_pixels)
            lengths[(width, height), duration_s] = geometry.visual_tokens(count, *size)
    if not lengths:
        raise reason or InputError("this world has no clips")
    return lengths
