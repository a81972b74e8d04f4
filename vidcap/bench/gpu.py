"""Random models of released sizes on one device: exactness in half precision, and step times.

``python -m vidcap.bench.gpu`` runs without weights, without the hub and without PyAV. For one pair
of each family it compares methods with transformers' ``generate`` token for token, and measures
prefill and decoding steps by context and tree width; beside each step stand the bytes it has to
read over the bandwidth of the device. It ends with one table. ``--smoke`` runs the same, small, on
a CPU.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from vidcap.bench.baseline import full_prompt, transformers_generate
from vidcap.bench.random_models import RandomVideo, random_model, random_video
from vidcap.engine.decoder import Decoder
from vidcap.engine.kv import KVCache
from vidcap.engine.logits import LogitsSettings
from vidcap.engine.loop import Limits
from vidcap.engine.margins import choice_margins
from vidcap.engine.model import EncodedPrefix
from vidcap.engine.request import Request, start
from vidcap.engine.schedule import PrefillJob, sequential_prefill
from vidcap.engine.stats import Stats
from vidcap.models.adapter import ReleasedVideoModel
from vidcap.settings import SpeculationSettings, method_settings

#: One pair of each family.
PAIRS = (
    ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-VL-3B-Instruct"),
    ("Qwen/Qwen3-VL-8B-Instruct", "Qwen/Qwen3-VL-2B-Instruct"),
    ("llava-hf/llava-onevision-qwen2-7b-ov-hf", "llava-hf/llava-onevision-qwen2-0.5b-ov-hf"),
    ("Qwen/Qwen2-VL-7B-Instruct", "Qwen/Qwen2-VL-2B-Instruct"),
)

#: Methods whose text must be that of ``generate``.
METHODS: dict[str, SpeculationSettings] = {
    "plain": method_settings("plain"),
    "sd-tree": method_settings("sd-tree"),
    "specvlm": method_settings("specvlm"),
    "self": method_settings("self", prune=0.5),
    "lookup": method_settings("lookup"),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is run.

    Attributes:
        device, dtype: where and how.
        small: whether the models are narrow and shallow.
        tokens: of every answer.
        video_tokens: visual tokens of the video that answers are about.
        contexts: visual tokens in front of a timed step.
        widths: tokens of a timed step.
        repeats: timed steps per figure.
        deadline_s: nothing new is begun this long after the start.
    """

    device: torch.device
    dtype: torch.dtype
    small: bool = False
    tokens: int = 64
    video_tokens: int = 4096
    contexts: tuple[int, ...] = (1024, 4096, 16_384, 32_768)
    widths: tuple[int, ...] = (1, 6, 26, 64)
    repeats: int = 10
    deadline_s: float = 420.0


def smoke_plan() -> Plan:
    """A minute or so on one core of a CPU."""
    return Plan(
        torch.device("cpu"),
        torch.float32,
        small=True,
        tokens=8,
        video_tokens=256,
        contexts=(64, 256),
        widths=(1, 6),
        repeats=2,
    )


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    model: str
    what: str
    figure: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; returns 0, or 1 where nothing can run here."""
    parser = argparse.ArgumentParser(prog="python -m vidcap.bench.gpu", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small models on the CPU")
    options = parser.parse_args(arguments)
    if not options.smoke and not torch.cuda.is_available():
        parser.exit(1, "torch sees no CUDA device; --smoke runs it small on the CPU\n")
    plan = smoke_plan() if options.smoke else Plan(torch.device("cuda"), torch.bfloat16)
    write = parser._print_message
    for line in table(list(measure(plan, progress=lambda text: write(text + "\n")))):
        write(line + "\n")
    return 0


def measure(
    plan: Plan, pairs: Sequence[tuple[str, str]] = PAIRS, progress: Callable[[str], object] = str
) -> Iterator[Row]:
    """All figures, pair by pair, until the time is up."""
    end = time.perf_counter() + plan.deadline_s
    bandwidth = _bandwidth(plan)
    yield Row("device", "read bandwidth", f"{bandwidth / 1e9:.0f} GB/s")
    for target_name, draft_name in pairs:
        if time.perf_counter() > end:
            yield Row(target_name, "not run", "the time was up")
            continue
        progress(f"{target_name} + {draft_name}")
        target, draft = (
            random_model(name, plan.device, plan.dtype, small=plan.small)
            for name in (target_name, draft_name)
        )
        yield from _exactness(target, draft, target_name, plan, end)
        for name, model in ((target_name, target), (draft_name, draft)):
            yield from _speed(model, name, plan, bandwidth, end)
        del target, draft
        _collect(plan)


def table(rows: Sequence[Row]) -> list[str]:
    """The rows as lines of text."""
    widths = [max(len(getattr(row, name)) for row in rows) for name in ("model", "what")]
    return [f"{row.model:{widths[0]}}  {row.what:{widths[1]}}  {row.figure}" for row in rows]


@torch.inference_mode()
def _exactness(
    target: ReleasedVideoModel, draft: ReleasedVideoModel, name: str, plan: Plan, end: float
) -> Iterator[Row]:
    """How far methods follow ``generate``, and how clear the choice was where one leaves it."""
    video = random_video(target, plan.video_tokens)
    rules = target.rules
    suppress = tuple(sorted({*rules.placeholder_ids, *rules.stop_ids}))
    logits = LogitsSettings(rules.vocab_size, suppress)
    limits = Limits(plan.tokens, frozenset())
    suffix = video.suffix_ids.to(plan.device)
    prefix = target.encode(video.inputs, "reference")
    prompt = full_prompt(prefix, suffix)
    expected = transformers_generate(target, video.inputs, *prompt, limits, logits).tokens
    base = Decoder.prefill(target.language, prefix)
    margins = choice_margins(base, suffix, logits, expected)
    for method, settings in METHODS.items():
        if time.perf_counter() > end:
            yield Row(name, f"methods from {method} on", "not run, the time was up")
            return
        request = Request(suffix, limits, logits)
        tokens = _answer(target, draft, video, settings, request)
        yield Row(name, f"{method} equals generate", _agreement(tokens, expected, margins))


def _answer(
    target: ReleasedVideoModel,
    draft: ReleasedVideoModel,
    video: RandomVideo,
    settings: SpeculationSettings,
    request: Request,
) -> list[int]:
    jobs = [
        PrefillJob(model.language, partial(model.encode, video.inputs, "reference"))
        for model in (target, draft)
    ]
    prompt = sequential_prefill(jobs[0], jobs[1], settings, Stats())
    return [token for new in start(prompt, request, Stats()) for token in new]


def _agreement(tokens: Sequence[int], expected: Sequence[int], margins: Sequence[float]) -> str:
    """Equal tokens of all, and the first difference with the target's margin there."""
    pairs = enumerate(zip(tokens, expected, strict=False))
    first = next((at for at, (one, other) in pairs if one != other), len(expected))
    if first == len(expected):
        return f"all {first} tokens (smallest margin {min(margins):.3g})"
    return f"first {first} of {len(expected)} tokens (margin there {margins[first]:.3g})"


@torch.inference_mode()
def _speed(
    model: ReleasedVideoModel, name: str, plan: Plan, bandwidth: float, end: float
) -> Iterator[Row]:
    """Prefill and steps behind keys and values of random numbers, by context and width."""
    weights = sum(weight.nbytes for weight in _step_weights(model))
    for context in plan.contexts:
        if time.perf_counter() > end:
            yield Row(name, f"contexts from {context} on", "not run, the time was up")
            return
        _reset_peak(plan)
        prefix = _random_prefix(model, context)
        prefill = _timed(partial(Decoder.prefill, model.language, prefix), plan, 1)
        peak = _peak(plan)
        yield Row(name, f"prefill of {context}", f"{1000 * prefill:.1f} ms{peak}")
        decoder = _behind_random(model, prefix)
        read = weights + sum(key.nbytes + value.nbytes for key, value in decoder.kv.prefix)
        for width in plan.widths:
            step = _timed(partial(_step, model, decoder, width), plan, plan.repeats)
            ideal = read / bandwidth
            yield Row(
                name,
                f"step of {width} behind {context}",
                f"{1000 * step:.2f} ms (bytes / bandwidth {1000 * ideal:.2f} ms)",
            )


def _step(model: ReleasedVideoModel, decoder: Decoder, width: int) -> Tensor:
    """One pass over a root and its children, with logits of every node."""
    device = decoder.kv.spec.device
    ids = torch.full((1, width), 20, device=device)
    depths = torch.ones(1, width, dtype=torch.long, device=device)
    depths[:, 0] = 0
    mask = torch.eye(width, dtype=torch.bool, device=device)
    mask[:, 0] = True
    return model.language.logits(decoder.run(ids, depths, mask[None]))


def _step_weights(model: ReleasedVideoModel) -> list[Tensor]:
    """What a decoding step reads: the layers and the output layer, which may be the embedding."""
    text, head = model.model.model.language_model, model.model.lm_head
    layers = [weight for name, weight in text.named_parameters() if "embed_tokens" not in name]
    return [*layers, *head.parameters()]


def _random_prefix(model: ReleasedVideoModel, context: int) -> EncodedPrefix:
    spec = model.language.kv_spec
    hidden = model.model.config.get_text_config().hidden_size
    planes = () if model.model.config.model_type == "llava_onevision" else (3,)
    order = torch.arange(context, device=spec.device)
    return EncodedPrefix(
        ids=torch.full((1, context), 20, device=spec.device),
        embeds=torch.randn(1, context, hidden, dtype=spec.dtype, device=spec.device),
        position_ids=order.expand(*planes, 1, context),
        visual_index=order,
        suffix_start=context,
    )


def _behind_random(model: ReleasedVideoModel, prefix: EncodedPrefix) -> Decoder:
    """A decoder behind keys and values of random numbers."""
    spec = model.language.kv_spec
    kv = KVCache(spec, 1, tail_rows=128)
    shape = (1, spec.kv_heads, prefix.length, spec.head_dim)
    for layer in range(spec.layers):
        pair = [torch.randn(shape, dtype=spec.dtype, device=spec.device) for _ in range(2)]
        kv.freeze(layer, *pair)
    return Decoder(model.language, prefix.without_inputs(), kv)


def _timed(run: Callable[[], object], plan: Plan, repeats: int) -> float:
    """Median seconds of `repeats` runs behind one that does not count."""
    seconds = []
    for _ in range(1 + repeats):
        _synchronize(plan)
        begin = time.perf_counter()
        run()
        _synchronize(plan)
        seconds.append(time.perf_counter() - begin)
    return sorted(seconds[1:])[repeats // 2]


def _bandwidth(plan: Plan) -> float:
    """Bytes per second that the device reads: the sum of a large tensor."""
    count = (1 << 30) if plan.device.type == "cuda" else (1 << 24)
    numbers = torch.ones(count, dtype=torch.float32, device=plan.device)
    return numbers.nbytes / _timed(numbers.sum, plan, 3)


def _synchronize(plan: Plan) -> None:
    if plan.device.type == "cuda":
        torch.cuda.synchronize(plan.device)


def _reset_peak(plan: Plan) -> None:
    if plan.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(plan.device)


def _peak(plan: Plan) -> str:
    if plan.device.type != "cuda":
        return ""
    return f", {torch.cuda.max_memory_allocated(plan.device) / 1e9:.1f} GB"


def _collect(plan: Plan) -> None:
    gc.collect()
    if plan.device.type == "cuda":
        torch.cuda.empty_cache()


if __name__ == "__main__":
    raise SystemExit(main())
