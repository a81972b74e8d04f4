"""Training batches: rendered clips of one size, each with a caption and some questions.

A row holds the system turn and the video once, then several texts (request and answer) that all
look at the video but not at each other, as if each stood alone behind it. That saves most of the
work of questions, and fills rows to one length. Batch k of a run depends on the seed and k alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vidcap.demo.degraded import clip
from vidcap.demo.encoding import Encoder, shared_positions
from vidcap.demo.language import (
    BRIEF_PROMPTS,
    DESCRIBE_PROMPTS,
    Question,
    caption,
    practice,
    questions,
)
from vidcap.demo.scenes import (
    FIRST_WORLD,
    LABEL_CLASSES,
    Scene,
    World,
    frame_times,
    sample_scene,
    token_labels,
    truth,
)
from vidcap.demo.states import STATE_CLASSES, state_labels

#: Training and its checks draw scenes from here on, far above every seed that a user can give.
FIRST_TRAINING_SEED = 2**40
HELD_OUT_SEED = 2**50
#: Rows that questions get beyond the longest caption of a batch.
QUESTION_ROWS = 176
#: Rows of one question for practice.
PRACTICE_ROWS = 22
#: Share of clips that are also asked for one sentence.
BRIEF_SHARE = 0.15
#: Rows that the texts of a clip take, about.
TEXT_ROWS = 360
CELL_PX = 28
IGNORED = -1

Worlds = Sequence[tuple[World, float]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Clips of one size with their texts.

    Attributes:
        frames: uint8 [b, n, h, w, 3], n even.
        labels: per key of ``LABEL_CLASSES`` and ``STATE_CLASSES``, long [b, visual tokens].
        ids: long [b, length].
        positions: long [3, b, length], the ``reference`` policy.
        texts: long [b, length]: 0 for what all texts share, k for the k-th text, -1 for padding.
        targets: long [b, length]: the token to predict at each row, -1 where nothing is learnt.
        start: row of the first visual token.
        scenes: what the clips show.
    """

    frames: Tensor
    labels: dict[str, Tensor]
    ids: Tensor
    positions: Tensor
    texts: Tensor
    targets: Tensor
    start: int
    scenes: tuple[Scene, ...]

    def mask(self) -> Tensor:
        """bool [b, rows of texts, length]: earlier rows of the shared part or of the same text."""
        first = int((self.texts[0] == 0).sum())
        own = self.texts[:, first:, None] == self.texts[:, None, :]
        return (own | (self.texts == 0)[:, None, :]).tril(first)

    def to(self, device: torch.device) -> Batch:
        """The batch with its tensors on ``device``."""
        moved = {f.name: getattr(self, f.name) for f in fields(self)}
        moved = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in moved.items()}
        moved["labels"] = {key: value.to(device) for key, value in self.labels.items()}
        return Batch(**moved)


def visual_tokens(width: int, height: int, duration_s: float) -> int:
    """Visual tokens of a clip of this size, sampled at two frames a second."""
    return -(-round(duration_s * 2) // 2) * (height // CELL_PX) * (width // CELL_PX)


def buckets(world: World) -> list[tuple[World, float]]:
    """The world cut into worlds whose clips share frame size and grids, each with its share."""
    total = sum(weight for *_, weight in world.combinations())
    groups: dict[tuple[int, int, int], list[tuple[int, int, float, float]]] = {}
    for one in world.combinations():
        width, height, duration_s, _ = one
        groups.setdefault((width, height, -(-round(duration_s * 2) // 2)), []).append(one)
    return [
        (replace(world, lengths=tuple(group)), sum(weight for *_, weight in group) / total)
        for group in groups.values()
    ]


class Batches(torch.utils.data.Dataset[Batch]):
    """Batch k of a run, for a loader with worker processes.

    Args:
        encoder: of the tokenizer in use.
        seed: of the run.
        clips: most clips per batch.
        steps: number of batches.
        first_seed: start of the range of scene seeds.
        worlds: what may occur, and how often each of them is drawn.
        rows: about how many rows a batch may have; long clips make smaller batches.
        codec: see :func:`clip`.
        practice: questions per clip in batches that only practise what is learnt most slowly
            (:func:`vidcap.demo.questions.practice`); 0 for none.
        practice_share: of such batches.
    """

    def __init__(
        self,
        encoder: Encoder,
        seed: int,
        clips: int,
        steps: int,
        first_seed: int = FIRST_TRAINING_SEED,
        worlds: Worlds = ((FIRST_WORLD, 1.0),),
        rows: int | None = None,
        codec: bool = True,
        practice: int = 0,
        practice_share: float = 0.5,
    ):
        self._encoder = encoder
        self._seed, self._clips, self._steps, self._first = seed, clips, steps, first_seed
        self._rows, self._codec = rows, codec
        self._practice, self._practice_share = practice, practice_share
        self._buckets = [
            (part, share * weight) for world, weight in worlds for part, share in buckets(world)
        ]

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, step: int) -> Batch:
        if not 0 <= step < self._steps:
            raise IndexError(step)
        rng = np.random.default_rng((self._seed, self._first, step))
        shares = np.asarray([share for _, share in self._buckets])
        chosen = int(rng.choice(len(shares), p=shares / shares.sum()))
        world = self._buckets[chosen][0]
        practises = self._practice > 0 and rng.random() < self._practice_share
        practised = self._practice if practises else 0
        seeds = self._first + rng.integers(2**39, size=self._clips_of(world, practised))
        scenes = tuple(sample_scene(int(seed), world) for seed in seeds)
        return make_batch(scenes, self._encoder, rng, self._codec, practised)

    def _clips_of(self, world: World, practised: int) -> int:
        """Clips of a batch of one bucket."""
        if self._rows is None:
            return self._clips
        texts = practised * PRACTICE_ROWS or TEXT_ROWS
        length = visual_tokens(*world.lengths[0][:3]) + texts
        return max(1, min(self._clips, self._rows // length))

    def __iter__(self) -> Iterator[Batch]:
        return (self[step] for step in range(self._steps))


def make_batch(
    scenes: tuple[Scene, ...],
    encoder: Encoder,
    rng: np.random.Generator,
    codec: bool = True,
    practised: int = 0,
) -> Batch:
    """A batch of scenes that share frame size and number of frame pairs.

    Args:
        codec: as in :func:`clip`.
        practised: questions per clip for practice, in place of all other texts; 0 for those.
    """
    frames = np.stack([clip(scene, rng, codec) for scene in scenes])
    labels = [_labels(scene) for scene in scenes]
    grid = labels[0]["colour"].shape
    if practised:
        texts = [_encoded(practice(scene, practised, rng), encoder) for scene in scenes]
    else:
        texts = [_texts(scene, encoder, rng) for scene in scenes]
    shared = encoder.shared(int(np.prod(grid)))
    positions, behind = shared_positions(len(encoder.opening), grid)
    longest = max(len(q) + len(a) for (q, a), *_ in texts)
    length = len(shared) + (practised * PRACTICE_ROWS or QUESTION_ROWS + longest)
    rows = [_row(row, shared, positions, behind, length) for row in texts]
    ids, places, numbers, targets = (list(column) for column in zip(*rows, strict=True))
    return Batch(
        frames=torch.from_numpy(frames),
        labels={
            key: torch.from_numpy(np.stack([one[key].ravel() for one in labels])).long()
            for key in (*LABEL_CLASSES, *STATE_CLASSES)
        },
        ids=torch.stack(ids),
        positions=torch.stack(places, dim=1),
        texts=torch.stack(numbers),
        targets=torch.stack(targets),
        start=len(encoder.opening),
        scenes=scenes,
    )


def _labels(scene: Scene) -> dict[str, NDArray[np.int16]]:
    shown = token_labels(scene, frame_times(scene), CELL_PX)
    return {**shown, **state_labels(truth(scene), shown["colour"])}


def _texts(
    scene: Scene, encoder: Encoder, rng: np.random.Generator
) -> list[tuple[list[int], list[int]]]:
    """Request and answer ids: the caption first, then questions in random order."""
    said = [Question("caption", _draw(rng, DESCRIBE_PROMPTS), caption(scene, rng))]
    if rng.random() < BRIEF_SHARE:
        brief = caption(scene, rng, brief=True)
        said.append(Question("caption", _draw(rng, BRIEF_PROMPTS), brief))
    asked = questions(scene, rng)
    return _encoded([*said, *(asked[k] for k in rng.permutation(len(asked)))], encoder)


def _encoded(asked: Sequence[Question], encoder: Encoder) -> list[tuple[list[int], list[int]]]:
    """Request and answer ids."""
    return [(encoder.request(one.text), encoder.answer(one.answer)) for one in asked]


def _draw(rng: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(rng.integers(len(options)))]


def _row(
    texts: list[tuple[list[int], list[int]]],
    shared: list[int],
    positions: Tensor,
    behind: int,
    length: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ids, positions, text numbers and targets of one row; texts are added while they fit."""
    ids = torch.zeros(length, dtype=torch.long)
    ids[: len(shared)] = torch.tensor(shared)
    places = torch.zeros(3, length, dtype=torch.long)
    places[:, : len(shared)] = positions
    numbers = torch.full((length,), -1)
    numbers[: len(shared)] = 0
    targets = torch.full((length,), IGNORED)
    at = len(shared)
    for number, (request, answer) in enumerate(texts, start=1):
        end = at + len(request) + len(answer)
        if end > length:
            continue
        ids[at:end] = torch.tensor(request + answer)
        places[:, at:end] = torch.arange(behind, behind + end - at)
        numbers[at:end] = number
        targets[end - len(answer) - 1 : end - 1] = torch.tensor(answer)
        at = end
    return ids, places, numbers, targets
