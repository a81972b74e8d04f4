"""Train the demo pair: ``python -m vidcap.demo.train --out FOLDER``.

Seven stages (:mod:`vidcap.demo.recipe`). The vision tower learns alone what each visual token
shows, through linear heads that are thrown away; captions alone would take many times longer to get
there. Then the target learns captions and answers, on short clips first, then on long ones as well,
then with more questions of the sorts that are learnt most slowly, at last of events and their order
with the tower at rest. The draft has the target's vision tower up to the last projection, so that
one run of it serves both. It learns the same texts, then the target's probabilities on them as
well. See ``vidcap/demo/README.md`` for what came out.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

import torch

from vidcap.demo.corpus import load_tokenizer
from vidcap.demo.encoding import Encoder
from vidcap.demo.fit import Log, Run
from vidcap.demo.recipe import STAGES, TIME_SHARES
from vidcap.demo.trainer import Pair, train


def main(arguments: list[str] | None = None) -> None:
    """Entry point; see ``--help``."""
    options = _parser().parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.threads:
        torch.set_num_threads(options.threads)
    tokenizer = load_tokenizer(options.out)
    run = Run(
        out=options.out,
        encoder=Encoder(tokenizer),
        seed=options.seed,
        device=_device(options.device),
        minutes=_minutes(options.stage, options.minutes),
        resume=options.resume,
        log=Log(lambda line: print(time.strftime("%H:%M:%S"), line, flush=True)),
        workers=options.workers,
        codec=options.codec,
    )
    pair = Pair(run, tokenizer, compiled=options.compile and shutil.which("c++") is not None)
    if options.start:
        pair.adopt(options.start)
    train(pair, options.stage)


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _minutes(stage: str, minutes: float | None) -> dict[str, float] | None:
    if minutes is None:
        return None
    shares = TIME_SHARES if stage == "all" else {stage: 1.0}
    return {name: share * minutes for name, share in shares.items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m vidcap.demo.train", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of states and checkpoints")
    parser.add_argument("--stage", choices=("all", *STAGES, "save"), default="all")
    parser.add_argument("--start", type=Path, help="folder of a pair whose weights are the start")
    parser.add_argument("--minutes", type=float, help="time budget; the schedule shrinks to fit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda ...")
    parser.add_argument("--threads", type=int, help="CPU threads of the model")
    parser.add_argument("--workers", type=int, default=1, help="processes that render clips")
    parser.add_argument(
        "--no-codec",
        dest="codec",
        action="store_false",
        help="noise in place of H.264, for machines without PyAV",
    )
    parser.add_argument("--resume", action="store_true", help="go on from the states in --out")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
