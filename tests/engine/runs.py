"""Running methods on tiny checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from tests.tiny import transformers_greedy
from vidcap.engine.logits import LogitsSettings
from vidcap.engine.loop import Generation, Limits
from vidcap.engine.policy import Policy
from vidcap.engine.request import Request, start
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.schedule import PrefilledPrompt, PrefillJob, sequential_prefill
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

    def prefill(self, method: SpeculationSettings = PLAIN) -> PrefilledPrompt:
        jobs = [
            PrefillJob(
                model.language, lambda model=model: model.encode(self.inputs, self.positions)
            )
            for model in (self.target, self.draft)
        ]
        return sequential_prefill(jobs[0], jobs[1], method, Stats())

    def start(
        self, question: str, prompt: PrefilledPrompt, stats: Stats | None = None
    ) -> Generation:
        """A generation behind a prefilled video."""
        rules = self.target.rules
        request = Request(
            suffix_ids=self.target.suffix_ids(question),
            limits=Limits(self.max_tokens, self.stop_ids),
            logits=LogitsSettings(rules.vocab_size, rules.placeholder_ids, self.penalty),
            sampling=self.sampling,
            policy=self.policy,
        )
        return start(prompt, request, stats or Stats())

    def ask(
        self,
        question: str,
        method: SpeculationSettings,
        prompt: PrefilledPrompt | None = None,
    ) -> tuple[list[int], Stats]:
        """Tokens and statistics of one answer."""
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
