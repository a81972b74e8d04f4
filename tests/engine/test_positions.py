"""Position policies."""

from __future__ import annotations

import torch

from vidcap.engine.positions import reference_positions, text_positions


def video_ids(start: int, times: list[int], height: int, width: int) -> torch.Tensor:
    """Long[3, m] as M-RoPE lays out a video."""
    grid = torch.meshgrid(
        torch.tensor(times), torch.arange(height), torch.arange(width), indexing="ij"
    )
    return torch.stack(grid).reshape(3, -1) + start


def layout(*parts: torch.Tensor | int) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions and visual flags of text runs (ints) and videos as transformers 5 computes them."""
    ids, flags, position = [], [], 0
    for part in parts:
        if isinstance(part, int):
            ids.append((torch.arange(part) + position).expand(3, -1))
            flags += [False] * part
            position += part
        else:
            ids.append(part + position)
            flags += [True] * part.shape[1]
            position += int(part[1:].max()) + 1
    return torch.cat(ids, dim=1)[:, None], torch.tensor([flags])


def test_text_starts_behind_the_last_frame() -> None:
    positions, visual = layout(5, video_ids(0, [0, 2, 4, 6, 8, 10], 2, 3), 4)
    assert positions[:, 0, -4].tolist() == [8, 8, 8]
    shifted = reference_positions(positions, visual)
    assert shifted[:, 0, -4:].tolist() == [[16, 17, 18, 19]] * 3
    assert torch.equal(shifted[..., :-4], positions[..., :-4])


def test_a_wide_short_video_is_left_alone() -> None:
    positions, visual = layout(3, video_ids(0, [0, 2], 2, 9), 2)
    assert torch.equal(reference_positions(positions, visual), positions)


def test_shifts_of_several_videos_add_up() -> None:
    video = video_ids(0, [0, 4, 8], 2, 2)
    positions, visual = layout(2, video, 1, video, 2)
    shifted = reference_positions(positions, visual)
    assert shifted[0, 0, 14].item() == 11
    assert shifted[:, 0, 15:27].min().item() == 12
    assert shifted[:, 0, 27].tolist() == [21, 21, 21]


def test_a_video_at_the_end_needs_no_shift() -> None:
    positions, visual = layout(2, video_ids(0, [0, 5], 2, 2))
    assert torch.equal(reference_positions(positions, visual), positions)


def test_text_positions_count_on_every_axis() -> None:
    offsets = torch.tensor([[4, 5, 5]])
    assert text_positions(10, offsets, 1).tolist() == [[14, 15, 15]]
    assert text_positions(10, offsets, 3).tolist() == [[[14, 15, 15]]] * 3
