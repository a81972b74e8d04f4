from __future__ import annotations

import os
from pathlib import Path

import pytest

from vidcap.errors import InputError
from vidcap.video.files import find_videos


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def found(folder: Path) -> list[str]:
    return [os.path.relpath(path, folder) for path in find_videos(str(folder))]


def test_videos_are_sorted_found_in_folders_and_by_extension_in_any_case(tmp_path):
    make(tmp_path, "b.MP4", "a/z.mkv", "a/c.Mov", "notes.txt", "a/cover.jpg", "c.webm", "mp4")
    assert found(tmp_path) == ["a/c.Mov", "a/z.mkv", "b.MP4", "c.webm"]


def test_hidden_files_and_folders_are_left_out_below_but_not_above(tmp_path):
    make(tmp_path / ".cache", "a.mp4", ".b.mp4", ".trash/c.mp4")
    assert found(tmp_path / ".cache") == ["a.mp4"]


def test_links_are_followed_once_and_loops_end(tmp_path):
    make(tmp_path / "real", "a.mp4")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/link").symlink_to(tmp_path / "real")
    (tmp_path / "tree/file.mp4").symlink_to(tmp_path / "real/a.mp4")
    (tmp_path / "real/up").symlink_to(tmp_path / "tree")
    (tmp_path / "real/self").symlink_to(tmp_path / "real")
    assert found(tmp_path / "tree") == ["file.mp4", "link/a.mp4"]


def test_folders_that_lie_too_deep_are_told_and_the_others_found(tmp_path):
    folder = tmp_path
    make(tmp_path, "z.mp4")
    for _ in range(300):
        folder = folder / "a"
        folder.mkdir()
    make(folder, "lost.mp4")
    seen: list[str] = []
    with pytest.raises(InputError, match="more than 100 deep") as error:
        seen.extend(map(os.path.basename, find_videos(str(tmp_path))))
    assert seen == ["z.mp4"]
    assert "\n" not in error.value.message


def test_a_link_to_nowhere_is_found_so_that_somebody_is_told(tmp_path):
    (tmp_path / "gone.mp4").symlink_to(tmp_path / "nothing")
    assert found(tmp_path) == ["gone.mp4"]


def test_a_folder_named_like_a_video_is_a_folder(tmp_path):
    make(tmp_path, "clip.mp4/inner.mp4")
    assert found(tmp_path) == ["clip.mp4/inner.mp4"]


def test_typescript_is_no_transport_stream(tmp_path):
    make(tmp_path, "main.ts")
    (tmp_path / "short.ts").write_bytes(b"G")
    (tmp_path / "video.ts").write_bytes(b"G" + bytes(187) + b"G" + bytes(187))
    (tmp_path / "disc.mts").write_bytes(bytes(4) + b"G" + bytes(191) + b"G" + bytes(187))
    assert found(tmp_path) == ["disc.mts", "video.ts"]


def test_a_folder_that_cannot_be_read_is_told_after_the_others(tmp_path, monkeypatch):
    make(tmp_path, "a/one.mp4", "b/two.mp4", "c.mp4")
    scandir = os.scandir

    def refuse(folder):
        if folder.endswith("/a"):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    seen: list[str] = []
    with pytest.raises(InputError, match="a cannot be read: Permission denied"):
        seen.extend(map(os.path.basename, find_videos(str(tmp_path))))
    assert seen == ["two.mp4", "c.mp4"]


def test_names_of_any_bytes_are_found(tmp_path):
    raw = os.fsencode(tmp_path) + b"/caf\xe9.mp4"
    with open(raw, "wb"):
        pass
    assert [os.fsencode(path) for path in find_videos(str(tmp_path))] == [raw]
