"""Running methods on tiny checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.tiny import transformers_greedy
from vidcap.engine.logits import LogitsSettings
from vidcap.engine.loop import Generation, Limits
from vidcap.engine.policy import Policy
from vidcap.engine.request import Request, start
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.schedule import (
    InlineLane,
    Lane,
    PrefilledPrompt,
    PrefillJob,
    parallel_start,
    sequential_prefill,
)
from vidcap.engine.stats import Stats
from vidcap.models.protocol import VideoInputs
from vidcap.models.qwen2_5_vl import Qwen25VL
from vidcap.settings import PositionPolicy, SpeculationSettings, method_settings

PLAIN = method_settings("plain")


@dataclass
class Run:
    """A video in front of a target and a draft, and how to ask about it."""

    target: Qwen25VL
    draft: Qwen25VL
    inputs: VideoInputs
    positions: PositionPolicy = "reference"
    max_tokens: int = 40
    stop_ids: frozenset[int] = frozenset()
    penalty: float = 1.0
    sampling: SamplingSettings | None = None
    policy: Policy | None = None
    make_lane: Callable[[], Lane] = InlineLane

    def jobs(self) -> list[PrefillJob]:
        """Target and draft with their videos."""
        return [
            PrefillJob(
                model.language, lambda model=model: model.encode(self.inputs, self.positions)
            )
            for model in (self.target, self.draft)
        ]

    def prefill(
        self, method: SpeculationSettings = PLAIN, stats: Stats | None = None
    ) -> PrefilledPrompt:
        return sequential_prefill(*self.jobs(), method, stats or Stats())

    def start(
        self, question: str, prompt: PrefilledPrompt, stats: Stats | None = None
    ) -> Generation:
        """A generation behind a prefilled video."""
        return start(prompt, self.request(question), stats or Stats())

    def start_parallel(
        self, question: str, method: SpeculationSettings, stats: Stats | None = None
    ) -> tuple[PrefilledPrompt, Generation]:
        """The video prefilled together with a question."""
        return parallel_start(
            *self.jobs(), method, self.request(question), stats or Stats(), lane=self.make_lane()
        )

    def request(self, question: str) -> Request:
        """The question and how it is answered."""
        rules = self.target.rules
        return Request(
            suffix_ids=self.target.suffix_ids(question),
            limits=Limits(self.max_tokens, self.stop_ids),
            logits=LogitsSettings(rules.vocab_size, rules.placeholder_ids, self.penalty),
            sampling=self.sampling,
            policy=self.policy,
        )

    def ask(
        self,
        question: str,
        method: SpeculationSettings,
        prompt: PrefilledPrompt | None = None,
    ) -> tuple[list[int], Stats]:
        """Tokens and statistics of one answer."""
        if prompt is None and method.draft == "pair" and method.prefill == "parallel":
            _, generation = self.start_parallel(question, method)
        else:
            generation = self.start(question, prompt or self.prefill(method))
        return [token for new in generation for token in new], generation.stats

    def transformers(self, question: str) -> list[int]:
        """Tokens of transformers' own greedy decoding."""
        return transformers_greedy(
            self.target,
            self.inputs,
            self.prefill().target.prefix,
            self.target.suffix_ids(question),
            max_tokens=self.max_tokens,
            stop_ids=self.stop_ids,
            repetition_penalty=self.penalty,
        )
