"""Loose verification: some drafts are let through although the target would have written otherwise.

LVSpec (arXiv 2604.05650) ranks drafted tokens by visual relevance and checks the relevant ones
only; FLy (arXiv 2511.22972) forgives a mismatch where the target was unsure and the draft went on
in agreement. Neither is lossless. Here both are functions from a verified tree to the set of nodes
that may stand although the target chose otherwise; :class:`LooseGreedy` and the sampler take the
set from there.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from vidcap.engine.round import Accepted, Proposal
from vidcap.engine.step import TargetStep
from vidcap.engine.tree import Tree


class Reading:
    """What the target makes of a drafted tree, worked out once for all who ask.

    Attributes:
        tree: what was drafted.
        scores: float32 [b, n, V] the target's, row i follows node i.
        hidden: [b, n, d] the target's last hidden states.
        next: Long[b, n] the target's choice behind each node.
        wanted: Long[b, n] its choice for each node's own place; the root's means nothing.
        match: bool[b, n] nodes that are that choice; the root's means nothing.
    """

    def __init__(self, tree: Tree, scores: Tensor, step: TargetStep):
        """Args: as of :meth:`vidcap.engine.verify.base.Verifier.judge`."""
        self.tree, self.scores, self.hidden = tree, scores, step.hidden
        self.parents = tree.parents.clamp(min=0)
        self.next = scores.argmax(-1)
        self.wanted = self.next.gather(1, self.parents)
        self.match = tree.tokens == self.wanted
        self._prob: Tensor | None = None

    @property
    def prob(self) -> Tensor:
        """float32 [b, n] probability of each node's token; the root's means nothing."""
        if self._prob is None:
            size = self.scores.shape[-1]
            at = self.parents * size + self.tree.tokens
            own = self.scores.flatten(1).gather(1, at)
            norm = torch.logsumexp(self.scores, dim=-1).gather(1, self.parents)
            self._prob = torch.exp(own - norm)
        return self._prob

    @property
    def beside_match(self) -> Tensor:
        """bool[b, n] nodes whose place has the target's choice among its nodes."""
        right = (self.match & (self.tree.parents >= 0)).long()
        return (
            torch.zeros_like(right).scatter_add_(1, self.parents, right).gather(1, self.parents) > 0
        )


class LooseRule(Protocol):
    """Decides which nodes may stand although they are not the target's choice."""

    def allowed(self, reading: Reading) -> Tensor:
        """bool[b, n] nodes that need no match; the root's entry means nothing."""
        ...


class Guards:
    """What is never loosened: some tokens, what the target finds improbable, and any node beside
    one that the target chose."""

    def __init__(self, strict_ids: frozenset[int] = frozenset(), least_prob: float = 0.05):
        """Args:
        strict_ids: tokens that must match exactly, on either side of a mismatch: stop and special
            tokens, digits, negations.
        least_prob: probability that the target must give a loosened token (delta).
        """
        self._strict_ids = sorted(strict_ids)
        self._least_prob = least_prob
        self._strict = torch.empty(0, dtype=torch.bool)

    def hold(self, reading: Reading) -> Tensor:
        """bool[b, n] nodes that may not be loosened."""
        strict = self._strict_of(reading.scores)
        held = strict[reading.tree.tokens] | strict[reading.wanted] | reading.beside_match
        if self._least_prob > 0:
            held |= reading.prob < self._least_prob
        return held

    def _strict_of(self, scores: Tensor) -> Tensor:
        """bool[V] whether a token is strict, made for the first scores and kept."""
        rows = scores.shape[-1]
        if len(self._strict) != rows or self._strict.device != scores.device:
            strict = torch.zeros(rows, dtype=torch.bool)
            strict[[index for index in self._strict_ids if index < rows]] = True
            self._strict = strict.to(scores.device)
        return self._strict


class LVSpecRule:
    """Visual relevance and position shifts (LVSpec).

    A token's relevance is the mean of its `top_n` largest cosines to the target's visual hidden
    states. The `fraction` least relevant nodes of a round may stand unchecked. A relevant one may
    still stand when the target's token for its place comes up nearby in the draft: it is there,
    only shifted.

    Two modes. ``paper`` is the published rule: no guards, and "nearby" is anywhere in the block.
    The default is ours: guards (:class:`Guards`) hold stop tokens, digits, negations, words that
    facts hang on and improbable tokens strict, and a shifted match must lie ahead on the same path
    (the wide reading would let "red circle and blue square" swap their colours).
    """

    def __init__(
        self,
        visual: Tensor | None,
        *,
        fraction: float,
        top_n: int = 10,
        shift: bool = True,
        guards: Guards | None = None,
    ):
        """Args:
        visual: [m, d] the target's hidden states of the visual tokens; None where a fraction of 0
            or 1 leaves nothing to rank.
        fraction: lambda, share of a round's nodes that stand unchecked; 0 checks everything and
            switches shifts off, which is strict verification.
        top_n: N, cosines per token that count.
        shift: whether position shifts are tolerated.
        guards: None for the published rule.
        """
        if visual is None:
            if 0 < fraction < 1:
                raise ValueError("LVSpec needs the target's states of the visual tokens")
            visual = torch.empty(0, 1)
        self._visual = functional.normalize(visual.float(), dim=-1)
        self._fraction = fraction
        self._top_n = min(top_n, len(visual))
        self._shift = shift and fraction > 0
        self._guards = guards

    def allowed(self, reading: Reading) -> Tensor:
        """See :class:`LooseRule`."""
        allowed = self._least_relevant(reading)
        if self._shift:
            allowed |= self._shifted(reading)
        if self._guards is not None:
            allowed &= ~self._guards.hold(reading)
        return allowed

    def _least_relevant(self, reading: Reading) -> Tensor:
        """bool[b, n] the floor(lambda * drafted) nodes of least relevance, earlier ones on ties."""
        batch, size = reading.match.shape
        loosened = math.floor(self._fraction * (size - 1) + 1e-9)
        if loosened in (0, size - 1):
            # None or all of them: nothing to rank.
            return torch.full_like(reading.match, loosened > 0)
        relevance = self._relevance(reading.hidden)
        order = torch.sort(relevance[:, 1:], dim=1, stable=True).indices[:, :loosened] + 1
        chosen = torch.zeros(batch, size, dtype=torch.bool, device=relevance.device)
        return chosen.scatter_(1, order, True)

    def _relevance(self, hidden: Tensor) -> Tensor:
        """[b, n] mean of the largest cosines of each node's own hidden state."""
        if not self._top_n:
            return hidden.new_zeros(hidden.shape[:2], dtype=torch.float32)
        cosines = functional.normalize(hidden.float(), dim=-1) @ self._visual.T
        return cosines.topk(self._top_n, dim=-1).values.mean(-1)

    def _shifted(self, reading: Reading) -> Tensor:
        """bool[b, n] nodes whose place's target token is drafted nearby."""
        tree = reading.tree
        same = reading.wanted[:, :, None] == tree.tokens[:, None, :]
        if self._guards is None:
            nearby = torch.ones_like(tree.mask)
        else:
            # Column j lies below row i: row j has i among its ancestors.
            nearby = tree.mask.transpose(1, 2).clone()
        nearby.diagonal(dim1=1, dim2=2).fill_(False)
        nearby[:, :, 0] = False
        return (same & nearby).any(-1)


class RandomRule:
    """Lets a random share of the drafts stand: the control that every other rule has to beat."""

    def __init__(self, *, fraction: float, seed: int = 0, guards: Guards | None = None):
        """Args:
        fraction: share of a round's nodes that stand unchecked.
        seed: of the choice.
        guards: what is never loosened, None for nothing.
        """
        self._fraction = fraction
        self._generator = torch.Generator().manual_seed(seed)
        self._guards = guards

    def allowed(self, reading: Reading) -> Tensor:
        """See :class:`LooseRule`."""
        tree = reading.tree
        batch, size = tree.tokens.shape
        loosened = math.floor(self._fraction * (size - 1) + 1e-9)
        lots = torch.rand(batch, size - 1, generator=self._generator)
        order = lots.argsort(dim=1)[:, :loosened].to(tree.tokens.device) + 1
        allowed = torch.zeros(batch, size, dtype=torch.bool, device=tree.tokens.device)
        allowed = allowed.scatter_(1, order, True)
        return allowed if self._guards is None else allowed & ~self._guards.hold(reading)


class FLyRule:
    """Forgives a lone mismatch where the target is unsure (FLy), on chains.

    ``paper``: the target's entropy, as a share of log V, must reach `theta`, and the `window`
    following drafts must all match. ``code`` is the authors' program: the entropy is that of the
    three most likely tokens alone, in nats, the window is one shorter, and no two forgiven
    mismatches share a window.
    """

    def __init__(self, *, mode: str = "paper", theta: float = 0.3, window: int = 6):
        """Args: as in the class description; `mode` is ``paper`` or ``code``."""
        self._code = mode == "code"
        self._theta = theta
        self._window = window - 1 if self._code else window

    def allowed(self, reading: Reading) -> Tensor:
        """See :class:`LooseRule`."""
        match = reading.match[:, 1:]
        batch, length = match.shape
        allowed = torch.zeros(batch, length + 1, dtype=torch.bool, device=match.device)
        if length > self._window:
            ahead = match.unfold(1, self._window, 1)[:, 1:] if self._window else None
            followed = torch.zeros_like(match)
            span = length - self._window
            followed[:, :span] = True if ahead is None else ahead.all(-1)
            allowed[:, 1:] = ~match & followed
        unsure = self._entropy(reading.scores[:, :-1]) >= self._theta
        allowed[:, 1:] &= unsure
        return allowed

    def _entropy(self, scores: Tensor) -> Tensor:
        """[b, n] of the distributions behind each node."""
        log_probs = torch.log_softmax(scores, dim=-1)
        if self._code:
            log_probs = log_probs.topk(3, dim=-1).values
        terms = torch.where(log_probs > -torch.inf, log_probs.exp() * log_probs, 0.0)
        entropy = -terms.sum(-1)
        return entropy if self._code else entropy / math.log(scores.shape[-1])


class LooseGreedy:
    """Greedy verification in which some nodes need no match.

    Takes the longest path of nodes that match or are allowed; of equally long ones the one with
    the most exact matches, then the one the target finds most probable.
    """

    def __init__(self, rule: LooseRule):
        """Args: rule: decides what may stand."""
        self._rule = rule

    def judge(self, proposal: Proposal, scores: Tensor, step: TargetStep) -> Accepted:
        """See :class:`vidcap.engine.verify.base.Verifier`."""
        tree = proposal.tree
        reading = Reading(tree, scores, step)
        numbers = torch.stack(
            (
                tree.tokens[0],
                tree.parents[0],
                reading.next[0],
                reading.match[0].long(),
                self._rule.allowed(reading)[0].long(),
            )
        )
        # On the host from here: a walk over some dozens of nodes is quicker there.
        return _longest(numbers.tolist(), reading.prob[0].clamp(min=1e-30).log().tolist())


def _longest(numbers: list[list[int]], log_probs: list[float]) -> Accepted:
    """The verdict of :class:`LooseGreedy`.

    Args:
        numbers: per node its token, its parent, the target's choice behind it, and whether it
            matches and may stand.
        log_probs: per node.
    """
    tokens, parents, following, match, allowed = numbers
    # Per node that can be reached: its depth, exact matches, log-probability; best ones last.
    reached = {0: (0, 0, 0.0)}
    for node in range(1, len(tokens)):
        above = reached.get(parents[node])
        if above is not None and (match[node] or allowed[node]):
            depth, exact, likely = above
            reached[node] = (depth + 1, exact + match[node], likely + log_probs[node])
    best = max(reached, key=lambda node: (reached[node], -node))
    nodes = [best]
    while nodes[-1]:
        nodes.append(parents[nodes[-1]])
    nodes.reverse()
    drafts = tuple(tokens[node] for node in nodes[1:])
    loosened = tuple(at for at, node in enumerate(nodes[1:]) if not match[node])
    return Accepted(tuple(nodes), (*drafts, following[best]), loosened)
