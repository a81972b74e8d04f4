from __future__ import annotations

import pytest
import torch

from tests.engine.fakes import FakeDrafter, FakeTarget, fake_logits, greedy
from vidcap.bench.watch import Watch
from vidcap.engine.draft import NoDraft
from vidcap.engine.draft.base import Drafter
from vidcap.engine.logits import LogitsSettings, LogitsStack
from vidcap.engine.loop import Generation, Limits
from vidcap.engine.stats import Stats
from vidcap.engine.tree import STATIC_TREE, TreeShape
from vidcap.engine.verify import StrictGreedy

PROMPT = (3, 1, 4)
COUNT = 30


def generation(drafter: Drafter) -> Generation:
    stack = LogitsStack(LogitsSettings(fake_logits(()).shape[0]), torch.tensor([PROMPT]))
    target = FakeTarget(PROMPT)
    return Generation(target, lambda: drafter, StrictGreedy(), stack, Limits(COUNT), Stats())


def watched(drafter: Drafter) -> Watch:
    watch = Watch()
    for _ in watch(generation(drafter)):
        pass
    return watch


@pytest.mark.parametrize("shape", [TreeShape.chain(4), STATIC_TREE])
@pytest.mark.parametrize("quality", [0.0, 0.6])
def test_every_first_mismatch_is_found_where_the_texts_part(
    shape: TreeShape, quality: float
) -> None:
    watch = watched(FakeDrafter(PROMPT, shape, quality=quality))
    expected = greedy(PROMPT, COUNT)
    assert watch.tokens == expected
    rejections = watch.rejections()
    assert rejections
    places = [rejection.position for rejection in rejections]
    assert places == sorted(set(places))
    assert places[0] >= 1
    assert places[-1] < COUNT
    for rejection in rejections:
        assert rejection.drafted[0] != expected[rejection.position]


def test_a_draft_that_is_always_right_is_never_rejected() -> None:
    assert watched(FakeDrafter(PROMPT, TreeShape.chain(4))).rejections() == ()


def test_a_draft_that_is_always_wrong_is_rejected_in_every_round() -> None:
    watch = watched(FakeDrafter(PROMPT, TreeShape.chain(3), mode="adversarial"))
    rejections = watch.rejections()
    assert [rejection.position for rejection in rejections] == list(range(1, COUNT))
    assert {len(rejection.drafted) for rejection in rejections} == {3}


def test_plain_decoding_has_no_draft_to_reject() -> None:
    watch = watched(NoDraft())
    assert watch.tokens == greedy(PROMPT, COUNT)
    assert (watch.rejections(), watch.draft_calls) == ((), 0)
