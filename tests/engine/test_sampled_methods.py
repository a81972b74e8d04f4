"""Whole methods sample the target's distribution, each node's history included.

Two small tables stand for the models, so that the distribution is known exactly: what follows a
token depends on that token, and, by the repetition penalty, on all tokens before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tests.engine.test_sampling import check
from vidcap.engine.attention import AttentionStep
from vidcap.engine.decoder import Decoder
from vidcap.engine.kv import KVCache, KVSpec
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.loop import Limits
from vidcap.engine.model import EncodedPrefix
from vidcap.engine.probe import Needs, Probe
from vidcap.engine.prompt import PrefilledPrompt
from vidcap.engine.prune.pruner import Pruner
from vidcap.engine.request import Request, start
from vidcap.engine.sampling import SamplingSettings
from vidcap.engine.stats import Stats
from vidcap.settings import SpeculationSettings, method_settings

VOCAB, PENALTY = 8, 2.5
QUESTION = [1, 5]
#: Little of the vocabulary, so that a path has much to say about repetitions; and all of it, so
#: that a look-up always finds something.
FEW, ALL = [0], [0, 1, 2, 3, 4, 5, 6, 7]
METHODS = {
    "plain": method_settings("plain"),
    "chain": method_settings("sd", draft_tokens=2),
    "static": method_settings("sd-tree"),
    "dynamic": method_settings("sd", tree="dynamic", tree_nodes=7, tree_depth=3, tree_width=3),
    "wide": method_settings("sd", tree="entropy", entropy_sure=0.0, entropy_unsure=0.0),
    "lookup": method_settings("lookup"),
    "branch": method_settings("sd", draft_tokens=2, lookup_branch=3),
    "tree and branch": method_settings("sd-tree", lookup_branch=3),
    "arms": method_settings("sd", draft_tokens=2, arms=("text", "lookup", "full")),
}


class Table:
    """A language model without memory: scores of the next token by the newest one."""

    kv_spec = KVSpec(1, 1, 1, 2, torch.float32, torch.device("cpu"))

    def __init__(self, seed: int):
        generator = torch.Generator().manual_seed(seed)
        # Likes to repeat itself.
        self.scores = torch.randn(VOCAB, VOCAB, generator=generator) + 2 * torch.eye(VOCAB)

    def embed(self, ids: Tensor) -> Tensor:
        return one_hot(ids, VOCAB).float()

    def forward(self, embeds: Tensor, position_ids: Tensor, step: AttentionStep) -> Tensor:
        return embeds

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden @ self.scores

    def decoder(self, ids: Tensor, rows: int = 1) -> Decoder:
        """Behind a prefix that shows no video."""
        count = ids.shape[1]
        places = torch.arange(count)[None]
        prefix = EncodedPrefix(ids, self.embed(ids)[:, :0], places, ids[0, :0], count)
        return Decoder(self, prefix, KVCache(self.kv_spec, 1, rows))


@dataclass
class Source:
    """Makes drafting decoders of a table."""

    model: Table
    prefix_ids: Tensor

    def decoder(
        self, suffix_ids: Tensor, kept: Tensor | None, *, rows: int, **how: object
    ) -> Decoder:
        decoder = self.model.decoder(self.prefix_ids, rows)
        decoder.append(suffix_ids)
        return decoder


def expected_pairs(
    target: Table, prefix: Sequence[int], sampling: SamplingSettings
) -> dict[tuple[int, int], float]:
    """Probability of the second and third token, by the definition, one token at a time."""
    rules = LogitsSettings(VOCAB, (), PENALTY)

    def follows(*written: int) -> Tensor:
        history = [*prefix, *QUESTION, *written]
        stack = LogitsStack(rules, torch.tensor([history]))
        alone = torch.ones(1, 1, 1, dtype=torch.bool)
        scores = stack.process(target.scores[history[-1]][None, None], stack.last_prompt_id, alone)
        return sampling.probabilities(scores[0, 0])

    first = follows()
    second = {one: follows(one) for one in range(VOCAB)}
    shares = dict.fromkeys(product(range(VOCAB), repeat=2), 0.0)
    for one, two in product(range(VOCAB), repeat=2):
        third = follows(one, two)
        for three in range(VOCAB):
            shares[two, three] += float(first[one] * second[one][two] * third[three])
    return shares


def sample(
    tables: Sequence[Table],
    prefix: Sequence[int],
    method: SpeculationSettings,
    sampling: SamplingSettings,
) -> tuple[list[int], Stats]:
    """Three tokens of the first table, the second one drafting."""
    ids, stats = torch.tensor([prefix]), Stats()
    target = tables[0].decoder(ids)
    probe = Probe(Needs(), target.prefix.visual_index)
    source = Source(tables[1], ids) if method.draft == "pair" else None
    prompt = PrefilledPrompt(target, probe, source, Pruner(method, 1), method)
    rules = LogitsSettings(VOCAB, (), PENALTY)
    request = Request(torch.tensor([QUESTION]), Limits(3), rules, sampling)
    tokens = [token for new in start(prompt, request, stats) for token in new]
    return tokens, stats


@pytest.mark.parametrize("name", METHODS)
def test_two_tokens_behind_the_first_follow_the_targets_distribution(name: str) -> None:
    method, tables, total = METHODS[name], (Table(1), Table(2)), 600
    looks = method.draft == "lookup" or method.lookup_branch or method.arms
    prefix = ALL if looks else FEW
    counts: Counter = Counter()
    drafted = accepted = 0
    for seed in range(total):
        sampling = SamplingSettings(0.8, top_p=0.95, seed=seed)
        tokens, stats = sample(tables, prefix, method, sampling)
        counts[tuple(tokens[1:])] += 1
        drafted += stats.drafted
        accepted += stats.accepted
    check(counts, expected_pairs(tables[0], prefix, sampling), total)
    if name != "plain":
        assert drafted > accepted > total * 0.1
