"""The training forward against the released model, in float32 on tiny shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen2VLVideoProcessor
from transformers.video_utils import VideoMetadata

from vidcap.demo.batches import make_batch
from vidcap.demo.checkpoint import ModelShape, build_model, build_processor
from vidcap.demo.encoding import Encoder, shared_positions
from vidcap.demo.evaluate import greedy, predict
from vidcap.demo.forward import Forward, patchify, windows
from vidcap.demo.scenes import sample_scene
from vidcap.demo.tokenizer import SPECIAL_TOKENS, train_tokenizer
from vidcap.demo.world import World

TINY = ModelShape(
    layers=2,
    hidden=96,
    intermediate=64,
    heads=3,
    mrope_section=(4, 6, 6),
    vision_hidden=32,
    vision_intermediate=48,
    vision_heads=2,
)
REQUEST = "Describe the video."


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(["A red circle moves to the left. The background is plain black."], 700)


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    model = build_model(TINY, tokenizer, seed=3).eval()
    with torch.no_grad():  # biases and norms away from their neutral start
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def noise(n: int, height: int, width: int, clips: int = 1) -> torch.Tensor:
    shape = (clips, n, height, width, 3)
    return torch.from_numpy(np.random.default_rng(n).integers(0, 256, shape, np.uint8))


def processed(tokenizer: Any, frames: torch.Tensor) -> Any:
    """What the released processor makes of one clip at two frames per second."""
    processor: Any = build_processor(tokenizer)
    content = [{"type": "video"}, {"type": "text", "text": REQUEST}]
    text = processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    n, height, width, _ = frames.shape
    metadata = VideoMetadata(
        total_num_frames=n,
        fps=2.0,
        width=width,
        height=height,
        duration=n / 2,
        frames_indices=list(range(n)),
    )
    return processor(
        text=[text],
        videos=[frames.permute(0, 3, 1, 2)],
        video_metadata=[metadata],
        do_resize=False,
        do_sample_frames=False,
        return_tensors="pt",
    )


def reference_positions(model: Any, inputs: Any) -> torch.Tensor:
    """The released ids, with the text behind the video moved above the video's largest id."""
    names = ("input_ids", "mm_token_type_ids", "video_grid_thw", "second_per_grid_ts")
    ids, _ = model.model.get_rope_index(**{name: inputs[name] for name in names})
    video = inputs["mm_token_type_ids"][0] == 2
    behind = int(torch.nonzero(video)[-1]) + 1
    ids[:, :, behind:] += ids[:, :, video].max() + 1 - ids[0, 0, behind]
    return ids


def released_logits(model: Any, inputs: Any, positions: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs, position_ids=positions, use_cache=False).logits[0]


def test_patches_equal_the_processor() -> None:
    frames = noise(4, 56, 84)
    processor = Qwen2VLVideoProcessor(cap_pixels_per_frame=False)
    wanted = processor(
        videos=[frames[0].permute(0, 3, 1, 2)], do_resize=False, return_tensors="pt"
    )["pixel_values_videos"]
    torch.testing.assert_close(patchify(frames).flatten(0, 2), wanted, rtol=0, atol=1e-5)


def test_windows_cover_each_patch_once() -> None:
    groups = windows(10, 24, 2, 4)
    assert sorted(torch.cat([g.flatten() for g in groups]).tolist()) == list(range(240))
    assert sorted(tuple(g.shape) for g in groups) == [(3, 16), (3, 64)]
    assert windows(8, 8, 2, 4) == ()


@pytest.mark.parametrize(("height", "width"), [(112, 112), (140, 112), (112, 168), (56, 84)])
def test_vision_tower_equals_the_released_one(
    model: Any, tokenizer: Any, height: int, width: int
) -> None:
    frames = noise(4, height, width, clips=2)
    got = Forward(model).vision(frames)
    for clip, mine in zip(frames, got, strict=True):
        inputs = processed(tokenizer, clip)
        visual = model.model.visual(
            inputs["pixel_values_videos"], grid_thw=inputs["video_grid_thw"]
        )
        torch.testing.assert_close(mine, visual.pooler_output, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [4, 12])
def test_positions_and_logits_equal_the_released_model(model: Any, tokenizer: Any, n: int) -> None:
    frames = noise(n, 112, 140)
    encoder, forward = Encoder(tokenizer), Forward(model)
    inputs = processed(tokenizer, frames[0])
    start = len(encoder.opening)
    shared, behind = shared_positions(start, (n // 2, 4, 5))
    request = encoder.request(REQUEST)
    ids = torch.tensor([[*encoder.shared(n // 2 * 20), *request]])
    assert ids.tolist() == inputs["input_ids"].tolist()
    places = torch.cat((shared, torch.arange(behind, behind + len(request)).expand(3, -1)), 1)[
        :, None
    ]
    assert places.tolist() == reference_positions(model, inputs).tolist()
    mask = torch.ones(1, ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
    with torch.no_grad():
        hidden = forward.hidden(forward.embed(ids, forward.vision(frames), start), places, mask)
        got = forward.logits(hidden[0])
    torch.testing.assert_close(got, released_logits(model, inputs, places), rtol=1e-4, atol=1e-4)


def test_each_text_of_a_row_is_judged_as_if_it_stood_alone(model: Any, tokenizer: Any) -> None:
    encoder, forward = Encoder(tokenizer), Forward(model)
    world = World(frame_sizes=((112, 112, 1.0),), durations_s=(3.0,))
    scenes = tuple(sample_scene(2**40 + k, world) for k in range(3))
    batch = make_batch(scenes, encoder, np.random.default_rng(0))
    assert int(batch.texts.max()) >= 2
    with torch.no_grad():
        together = predict(forward, batch)
        visual = forward.vision(batch.frames)
    for row in range(3):
        for number in range(1, int(batch.texts[row].max()) + 1):
            kept = (batch.texts[row] == 0) | (batch.texts[row] == number)
            ids, places = batch.ids[row : row + 1, kept], batch.positions[:, row : row + 1, kept]
            mask = torch.ones(1, ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
            with torch.no_grad():
                x = forward.embed(ids, visual[row : row + 1], batch.start)
                alone = forward.hidden(x, places, mask)[0]
            torch.testing.assert_close(together[row, kept], alone, rtol=1e-4, atol=1e-4)


def test_greedy_equals_generate(model: Any, tokenizer: Any) -> None:
    frames = noise(6, 112, 112, clips=2)
    encoder = Encoder(tokenizer)
    got = greedy(Forward(model), frames, encoder.request(REQUEST), encoder, limit=12)
    for clip, mine in zip(frames, got, strict=True):
        inputs = processed(tokenizer, clip)
        out = model.generate(
            **inputs,
            position_ids=reference_positions(model, inputs),
            max_new_tokens=12,
            do_sample=False,
            eos_token_id=encoder.turn_end,
        )[0, inputs["input_ids"].shape[1] :].tolist()
        end = out.index(encoder.turn_end) if encoder.turn_end in out else len(out)
        assert mine == out[:end]


def test_bfloat16_products_stay_close(model: Any) -> None:
    frames = noise(4, 112, 112)
    exact, rough = Forward(model).vision(frames), Forward(model, torch.bfloat16).vision(frames)
    assert rough.dtype == torch.float32
    assert 0 < (exact - rough).abs().max() < 0.1 * exact.abs().max()


def test_special_tokens_come_first(tokenizer: Any) -> None:
    assert tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS)) == list(range(len(SPECIAL_TOKENS)))
