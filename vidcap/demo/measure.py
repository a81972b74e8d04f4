"""Measure a pair on unseen clips: ``python -m vidcap.demo.measure --clips 100``.

Clips are written as MP4 files and described as any file of a user would be. Printed are, for target
and draft alone, the facts right per kind and the time of one decode step, and how often the draft
picks the target's next token when it reads along with the target's captions.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from vidcap.captioner import Captioner
from vidcap.demo.batches import Encoder, shared_positions
from vidcap.demo.checkpoint import load_checkpoint
from vidcap.demo.clips import write_dataset
from vidcap.demo.forward import MERGE, PATCH, TEMPORAL, Forward
from vidcap.demo.scenes import sample_scene, truth
from vidcap.demo.score import pooled, score_caption
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


def describe(folder: Path, paths: Sequence[Path], threads: int) -> list[Record]:
    """Records of plain greedy decoding with one model, through the path that every file takes."""
    captioner = Captioner(
        ModelSettings(target=str(folder), use_draft=False, threads=threads),
        VideoSettings(),
        GenerationSettings(),
        method_settings("plain"),
    )
    records = []
    for path in paths:
        with captioner.open(path) as session:
            records.append(session.answer(DEFAULT_DESCRIBE_PROMPT))
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


def report(name: str, records: Sequence[Record], seeds: Sequence[int]) -> str:
    """One paragraph about one model."""
    scores = [
        score_caption(truth(sample_scene(seed)), record.text or "")
        for seed, record in zip(seeds, records, strict=True)
    ]
    total = pooled(scores)
    kinds = ", ".join(f"{kind} {c[0] / max(1, sum(c)):.1%}" for kind, c in total.by_kind.items())
    steps = sum(record.tokens.generated - 1 for record in records if record.tokens)
    spent = sum(record.timing.decode_s or 0.0 for record in records if record.timing)
    return (
        f"{name}: facts right {total.accuracy:.1%} (right {total.right}, wrong {total.wrong}, "
        f"missing {total.missing}); {kinds}; decode step {spent / max(1, steps) * 1e3:.2f} ms"
    )


def main(arguments: list[str] | None = None) -> None:
    """Entry point; see ``--help``."""
    parser = argparse.ArgumentParser(prog="python -m vidcap.demo.measure", description=__doc__)
    parser.add_argument("--pair", type=Path, default=WEIGHTS, help="folder of target and draft")
    parser.add_argument("--clips", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first clip")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of the model")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    seeds = range(options.seed, options.seed + options.clips)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_dataset(Path(folder), options.clips, options.seed)
        target = describe(options.pair / "target", paths, options.threads)
        print(report("target", target, seeds), flush=True)
        draft = describe(options.pair / "draft", paths, options.threads)
        print(report("draft", draft, seeds), flush=True)
        texts = [record.text or "" for record in target]
        share = agreement(options.pair / "draft", paths, texts)
        print(f"draft picks the target's token: {share:.1%}")


if __name__ == "__main__":
    main()
