"""What is noted of transformers' own decoding."""

from __future__ import annotations

import pytest
import torch

from vidcap.bench.calls import Clock, watched


class Model(torch.nn.Module):
    def forward(self, input_ids: torch.Tensor, **more: object) -> torch.Tensor:
        if more.get("fails"):
            raise RuntimeError("no")
        return input_ids


def test_the_prompt_is_no_round_and_rounds_have_any_length() -> None:
    clock = Clock()
    clock.put(torch.zeros(1, 40))
    assert (clock.counts, clock.first, clock.last) == ([], 0.0, 0.0)
    for count in (3, 1, 2):
        clock.put(torch.zeros(1, count))
    clock.end()
    assert clock.counts == [3, 1, 2]
    assert 0 < clock.first < clock.last


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({}, False),
        ({"pixel_values_videos": None, "mm_encoder_outputs": {}}, False),
        ({"pixel_values_videos": torch.zeros(4, 8)}, True),
        ({"mm_encoder_outputs": {"video": object()}}, True),
    ],
)
def test_a_video_is_seen_as_pixels_or_encoded(given: dict[str, object], seen: bool) -> None:
    model = Model()
    with watched(model) as calls:
        model(input_ids=torch.zeros(1, 5), **given)
        model(input_ids=torch.zeros(1, 2))
    assert (calls.rows, calls.saw_video) == ([5, 2], seen)


def test_a_model_is_left_as_it_was() -> None:
    model = Model()
    with pytest.raises(RuntimeError), watched(model) as calls:
        model(input_ids=torch.zeros(1, 5), fails=True)
    model(input_ids=torch.zeros(1, 5))
    assert calls.rows == [5]
