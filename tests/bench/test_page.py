"""The page of figures: complete, self-contained, escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.bench.runs import make_run
from vidcap.bench.arms import Arm
from vidcap.bench.metrics import ArmFigures, figures
from vidcap.bench.page import render_page, write_page
from vidcap.bench.report import COLUMNS, Report
from vidcap.errors import VidcapError
from vidcap.settings import METHODS

ARMS = [
    Arm("plain", METHODS["plain"]),
    Arm("sd", METHODS["sd"]),
    Arm("transformers-assisted", None),
]
CLIP = {
    "plain": make_run(),
    "sd": make_run(arm="sd", decode_s=0.5, facts={"colour": (1, 1, 0)}),
    "transformers-assisted": make_run(arm="transformers-assisted", draft_visual_tokens=0),
}
EVIL = "<script>alert('1')</script>\"&"


def found(visual_tokens: int | None = None) -> list[ArmFigures]:
    return figures(ARMS, [CLIP], visual_tokens=visual_tokens)


def report(arms: list[ArmFigures] | None = None, prompt: str = "Describe.") -> Report:
    return Report({"cpu": "x", "gpus": []}, {"prompt": prompt, "seed": None}, arms or found())


class _Reader(HTMLParser):
    """Text of the page, its tags and their attributes; every tag has to be closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_holds_the_table_the_notes_the_settings_and_the_machine() -> None:
    reader = read(render_page(report()))
    rows = [[column.cell(arm) for column in COLUMNS] for arm in found()]
    for word in [column.head for column in COLUMNS] + [cell for row in rows for cell in row]:
        assert word in reader.words
    text = " ".join(reader.words)
    assert "transformers-assisted: its draft does not see the video" in text
    assert '"schema_version": 1' in text
    place = reader.words.index("prompt")
    assert reader.words[place + 1] == "Describe."
    assert "seed" not in reader.words


def test_bars_are_as_long_as_their_figures() -> None:
    page = render_page(report())
    chart = page.split("<h2>Decoding speed against plain</h2>")[1].split("<h2>")[0]
    assert re.findall(r"width: ([\d.]+)%", chart) == ["42.5", "85.0", "42.5"]
    assert re.findall(r"[\d.]+x", chart) == ["1.00x", "2.00x", "1.00x"]


def test_a_figure_that_no_arm_has_gets_no_chart() -> None:
    (plain,) = figures(ARMS[:1], [CLIP])
    assert "<h2>Facts that are right</h2>" in render_page(report())
    assert "<h2>Facts that are right</h2>" not in render_page(report([plain]))


def test_arms_of_several_lengths_are_told_apart() -> None:
    page = render_page(report([*found(100), *found(400)]))
    assert page.count("<div>sd, 100 visual tokens</div>") > 1
    assert "<div>sd</div>" not in page


def test_nothing_is_fetched_and_no_text_becomes_markup() -> None:
    (arm,) = figures([Arm(EVIL, METHODS["sd"])], [{EVIL: make_run(), "plain": make_run()}])
    page = render_page(Report({EVIL: EVIL}, {"prompt": EVIL}, [arm]))
    reader = read(page)
    assert not reader.tags & {"script", "link", "img", "iframe", "object", "embed"}
    assert reader.attributes <= {"lang", "charset", "name", "content", "title", "class", "style"}
    assert not re.search(r"url\(|@import|https?:", page)
    assert reader.words.count(EVIL) >= 4


def test_the_page_is_written_as_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_page(report(prompt="π \udce9"), path)
    assert "π ?" in path.read_text("utf-8")
    with pytest.raises(VidcapError, match=r"cannot write .*none/page\.html: No such file") as error:
        write_page(report(), tmp_path / "none" / "page.html")
    assert error.value.exit_code == 3
