"""Measure a pair on unseen clips: ``python -m vidcap.demo.measure --clips 100``.

Clips are written as MP4 files and described as any file of a user would be. Printed are the facts
right per kind in the captions of target and draft alone, with the time of one decode step; the
target's right answers per kind of question; what its captions get right of other clips, and what
it says of a blank video (both should be near chance: it must look); and how often the draft picks
the target's next token when it reads along with the target's captions.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vidcap.captioner import Captioner
from vidcap.demo.answers import score_answer
from vidcap.demo.checkpoint import load_checkpoint
from vidcap.demo.clips import write_dataset, write_mp4
from vidcap.demo.encoding import Encoder, shared_positions
from vidcap.demo.forward import MERGE, PATCH, TEMPORAL, Forward
from vidcap.demo.questions import QUESTION_KINDS, Question, questions_of
from vidcap.demo.scenes import Background, Scene, sample_scene, truth
from vidcap.demo.score import pooled, score_caption
from vidcap.demo.world import DEMO_WORLD, LONG_WORLD
from vidcap.models.geometry import read_geometry
from vidcap.output.record import Record
from vidcap.settings import (
    DEFAULT_DESCRIBE_PROMPT,
    GenerationSettings,
    ModelSettings,
    VideoSettings,
    method_settings,
)
from vidcap.video import load_frames

WEIGHTS = Path(__file__).parent / "weights"


def describe(
    folder: Path, paths: Sequence[Path], threads: int, asked: Sequence[Sequence[str]] = ()
) -> list[list[Record]]:
    """Records of plain greedy decoding with one model, through the path that every file takes.

    Args:
        folder: of the model.
        paths: of the clips.
        threads: CPU threads.
        asked: questions about each clip.

    Returns:
        per clip the record of its caption, then those of the answers.
    """
    captioner = Captioner(
        ModelSettings(target=str(folder), use_draft=False, threads=threads),
        VideoSettings(),
        GenerationSettings(),
        method_settings("plain"),
    )
    records = []
    for path, questions in zip(paths, asked or [()] * len(paths), strict=True):
        with captioner.open(path) as session:
            caption = session.answer(DEFAULT_DESCRIBE_PROMPT)
            answers = [session.answer(text, kind="ask", question=text) for text in questions]
        records.append([caption, *answers])
    return records


def agreement(draft: Path, paths: Sequence[Path], texts: Sequence[str]) -> float:
    """Share of the tokens of ``texts``, their end included, that the draft would have picked."""
    model, tokenizer = load_checkpoint(draft)
    forward, encoder, geometry = Forward(model), Encoder(tokenizer), read_geometry(draft)
    request = encoder.request(DEFAULT_DESCRIBE_PROMPT)
    hits: list[torch.Tensor] = []
    for path, text in zip(paths, texts, strict=True):
        rgb = load_frames(path, VideoSettings(), geometry.frame_size).rgb
        rgb = np.concatenate((rgb, rgb[-1:])) if len(rgb) % TEMPORAL else rgb
        answer = torch.tensor(encoder.answer(text))
        picked = _picks(forward, encoder, torch.from_numpy(rgb)[None], request, answer)
        hits.append(picked == answer)
    return torch.cat(hits).float().mean().item()


@torch.no_grad()
def _picks(
    forward: Forward,
    encoder: Encoder,
    frames: torch.Tensor,
    request: list[int],
    answer: torch.Tensor,
) -> torch.Tensor:
    """The model's choice for each token of an answer, given those before it."""
    _, n, height, width, _ = frames.shape
    cell = PATCH * MERGE
    start = len(encoder.opening)
    shared, behind = shared_positions(start, (n // TEMPORAL, height // cell, width // cell))
    visual = forward.vision(frames)
    ids = torch.tensor([*encoder.shared(visual.shape[1]), *request, *answer.tolist()])[None]
    tail = torch.arange(behind, behind + len(request) + len(answer)).expand(3, -1)
    mask = torch.ones(1, ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
    hidden = forward.hidden(
        forward.embed(ids, visual, start), torch.cat((shared, tail), 1)[:, None], mask
    )
    return forward.logits(hidden[0, -len(answer) - 1 : -1]).argmax(-1)


def facts_report(
    name: str, records: Sequence[Sequence[Record]], truths: Sequence[dict[str, Any]]
) -> str:
    """One paragraph about the captions of one model."""
    captions = [record for record, *_ in records]
    scores = [
        score_caption(facts, record.text or "")
        for facts, record in zip(truths, captions, strict=True)
    ]
    total = pooled(scores)
    kinds = ", ".join(f"{kind} {c[0] / max(1, sum(c)):.1%}" for kind, c in total.by_kind.items())
    steps = sum(record.tokens.generated - 1 for record in captions if record.tokens)
    spent = sum(record.timing.decode_s or 0.0 for record in captions if record.timing)
    visual = [record.tokens.visual or 0 for record in captions if record.tokens]
    return (
        f"{name}: facts right {total.accuracy:.1%} (right {total.right}, wrong {total.wrong}, "
        f"missing {total.missing}); {kinds}; decode step {spent / max(1, steps) * 1e3:.2f} ms; "
        f"{min(visual)} to {max(visual)} visual tokens"
    )


def answers_report(
    name: str, records: Sequence[Sequence[Record]], asked: Sequence[Sequence[Question]]
) -> str:
    """One paragraph about the answers of one model."""
    right: dict[str, list[bool]] = {kind: [] for kind in QUESTION_KINDS}
    for (_, *answers), questions in zip(records, asked, strict=True):
        for record, question in zip(answers, questions, strict=True):
            right[question.kind].append(score_answer(question, record.text or ""))
    kinds = ", ".join(
        f"{kind} {sum(hits) / len(hits):.1%} of {len(hits)}" for kind, hits in right.items() if hits
    )
    return f"{name}: answers right: {kinds}"


def blank_clips(folder: Path, scenes: Sequence[Scene]) -> list[Path]:
    """Clips of the same sizes and lengths that show an empty gray frame."""
    gray = Background("plain", ("gray",), None, ((126, 126, 126),))
    folder.mkdir()
    paths = [folder / f"{number:05d}.mp4" for number in range(len(scenes))]
    for scene, path in zip(scenes, paths, strict=True):
        write_mp4(replace(scene, objects=(), background=gray), path)
    return paths


def main(arguments: list[str] | None = None) -> None:
    """Entry point; see ``--help``."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    world = LONG_WORLD if options.long else DEMO_WORLD
    scenes = [sample_scene(options.seed + number, world) for number in range(options.clips)]
    truths = [truth(scene) for scene in scenes]
    asked = [questions_of(facts, np.random.default_rng(facts["seed"])) for facts in truths]
    words = [[one.text for one in questions] for questions in asked]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        paths = write_dataset(folder / "clips", options.clips, options.seed, world)
        target = describe(options.pair / "target", paths, options.threads, words)
        print(facts_report("target", target, truths), flush=True)
        print(answers_report("target", target, asked), flush=True)
        wrong = [*truths[1:], *truths[:1]]
        print(facts_report("target, another clip's facts", target, wrong), flush=True)
        blank = describe(
            options.pair / "target", blank_clips(folder / "blank", scenes), options.threads
        )
        print(facts_report("target, blank video", blank, truths), flush=True)
        draft = describe(options.pair / "draft", paths, options.threads)
        print(facts_report("draft", draft, truths), flush=True)
        share = agreement(options.pair / "draft", paths, [one.text or "" for one, *_ in target])
        print(f"draft picks the target's token: {share:.1%}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m vidcap.demo.measure", description=__doc__)
    parser.add_argument("--pair", type=Path, default=WEIGHTS, help="folder of target and draft")
    parser.add_argument("--clips", type=int, default=100)
    parser.add_argument("--long", action="store_true", help="long clips instead of everyday ones")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first clip")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of the model")
    return parser


if __name__ == "__main__":
    main()
