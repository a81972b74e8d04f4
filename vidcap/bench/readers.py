"""``python -m vidcap.bench.readers CLIP``: readers of video side by side.

Files of 10 s, 10 min and 2 h are made out of the clip by repeating it. Each reader samples each of
them in a process of its own; the table says how long that took at best, how far the memory rose
above what the imports had taken, and how many frames were not the ones they were said to be.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from vidcap.bench.reading import (
    READERS,
    Request,
    peak_bytes,
    signatures_of_file,
    wrong_frames,
)
from vidcap.threads import available_threads

_LENGTHS = {"10 s": 10, "10 min": 600, "2 h": 7200}
_HEIGHT, _WIDTH = 364, 644
_MIB = 1 << 20


def main(arguments: Sequence[str] | None = None) -> None:
    """Compares the readers, or runs one of them where the comparison asks for that."""
    options = _parser().parse_args(arguments)
    if options.one:
        json.dump(_measure(options), sys.stdout)
        return
    _say(f"{options.frames} frames of {_WIDTH}x{_HEIGHT}, {options.threads} threads")
    _say(f"{'file':<8}{'reader':<26}{'seconds':>9}{'CPU s':>8}{'MiB':>7}{'wrong':>7}")
    with tempfile.TemporaryDirectory(prefix="vidcap-readers-", dir=options.folder) as folder:
        truth = Path(folder) / "truth.npy"
        np.save(truth, signatures_of_file(options.clip))
        for length in options.length or _LENGTHS:
            path = Path(folder) / "video.mp4"
            repeat_clip(options.clip, str(path), _LENGTHS[length])
            for name in options.reader or READERS:
                facts = _run_apart(name, str(path), str(truth), options)
                _say(f"{length:<8}{name:<26}{_row(facts)}")


def repeat_clip(clip: str, path: str, seconds: float) -> None:
    """Writes a file of about this length by copying the packets of a clip, again and again."""
    with av.open(path, "w") as written:
        copy, shift = None, Fraction(0)
        while shift < seconds:
            with av.open(clip) as container:
                stream = container.streams.video[0]
                copy = copy or written.add_stream_from_template(stream)
                base = stream.time_base or Fraction(1, 1000)
                end = Fraction(0)
                for packet in container.demux(stream):
                    if packet.pts is None or packet.dts is None:
                        continue
                    if shift + packet.pts * base >= seconds:
                        # What follows in the file may refer to this one.
                        return
                    end = max(end, (packet.pts + (packet.duration or 0)) * base)
                    packet.pts += int(shift / base)
                    packet.dts += int(shift / base)
                    packet.stream = copy
                    written.mux(packet)
            shift += end


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    reader = READERS[options.one]
    if not reader.is_installed:
        return {"error": "not installed"}
    with av.open(options.warm_up) as container:
        rate = float(container.streams.video[0].average_rate or 1)
    request = Request(options.clip, options.frames, _HEIGHT, _WIDTH, options.threads, rate)
    short = replace(request, path=options.warm_up, count=2)
    try:
        reader.read(short)
        before, seconds, cpu_s = peak_bytes(), [], []
        for _ in range(options.repeat):
            begin, cpu = time.perf_counter(), time.process_time()
            reading = reader.read(request)
            seconds.append(time.perf_counter() - begin)
            cpu_s.append(time.process_time() - cpu)
        rise = peak_bytes() - before
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:60]}
    wrong = wrong_frames(reading, np.load(options.truth))
    return {"seconds": min(seconds), "cpu_s": min(cpu_s), "rise": rise, "wrong": wrong}


def _run_apart(name: str, path: str, truth: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "vidcap.bench.readers", path, "--one", name]
    command += ["--truth", truth, "--warm-up", options.clip, "--frames", str(options.frames)]
    command += ["--repeat", str(options.repeat), "--threads", str(options.threads)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=options.limit * options.repeat
        )
    except subprocess.TimeoutExpired:
        return {"error": f"more than {options.limit} s"}
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if lines else {"error": f"ended with exit code {done.returncode}"}


def _row(facts: dict[str, Any]) -> str:
    if "error" in facts:
        return f"  {facts['error']}"
    rise = facts["rise"] / _MIB
    return f"{facts['seconds']:>9.2f}{facts['cpu_s']:>8.2f}{rise:>7.0f}{facts['wrong']:>7}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m vidcap.bench.readers")
    parser.add_argument("clip", help="a video of constant frame rate, at least 10 s")
    parser.add_argument("--frames", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the best counts")
    parser.add_argument("--threads", type=int, default=available_threads())
    parser.add_argument("--length", action="append", choices=_LENGTHS, help="default: all")
    parser.add_argument("--reader", action="append", choices=READERS, help="default: all")
    parser.add_argument("--limit", type=int, default=600, help="seconds for one run")
    parser.add_argument("--folder", help="where the files are made, 120 times the clip")
    parser.add_argument("--one", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--truth", help=argparse.SUPPRESS)
    parser.add_argument("--warm-up", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
