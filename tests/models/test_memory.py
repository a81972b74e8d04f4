"""The memory estimate against what runs really take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.families import write_family
from tests.models.medium import MEDIUM_DRAFT, MEDIUM_TARGET, write_medium
from tests.models.peak import QUESTION, SIDE, TOKENS
from vidcap.models.facts import read_facts
from vidcap.models.memory import pair_memory
from vidcap.models.work import Form, Load
from vidcap.settings import QuantizeName

#: Tokens of the chat template and the question of a tiny tokenizer, about.
WORDS = 20 + len(QUESTION.split())

#: glibc returns freed pieces of this size and more at once.
RETURNED_BYTES = 1 << 18


def measured(tiny: Path, pair: str, count: int, dtype: str, quantize: str) -> int:
    """Bytes at the fullest moment of a run in a process of its own."""
    settings = {"MALLOC_MMAP_THRESHOLD_": str(RETURNED_BYTES), "OMP_NUM_THREADS": "1"}
    warm = f"{tiny}+{tiny}" if "+" in pair else str(tiny)
    result = subprocess.run(
        [sys.executable, "-m", "tests.models.peak", warm, pair, str(count), dtype, quantize],
        env=os.environ | settings,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return int(result.stdout.split()[-1])


def estimated(
    target: Path, draft: Path | None, count: int, dtype: str, quantize: QuantizeName
) -> int:
    """The same without running anything, and without the idle process."""
    facts = read_facts(target)
    size = facts.geometry.frame_size(count, SIDE, SIDE)
    prompt = facts.geometry.visual_tokens(count, *size) + WORDS
    pixels = facts.geometry.pad_frames(count) * size[0] * size[1]
    memory = pair_memory(
        facts,
        read_facts(draft) if draft else None,
        Load(prompt, prompt, TOKENS, pixels),
        Form(dtype, on_cpu=True, quantize=quantize),
    )
    return memory.total - memory.process


@pytest.mark.system
@pytest.mark.parametrize(
    ("family", "drafts", "count", "dtype"),
    [
        ("qwen2_vl", False, 4, "float32"),
        ("qwen2_5_vl", True, 8, "float32"),
        ("qwen3_vl", False, 24, "bfloat16"),
        ("llava_onevision", False, 24, "bfloat16"),
    ],
)
def test_a_run_takes_what_was_estimated(
    tmp_path: Path, family: str, drafts: bool, count: int, dtype: str
) -> None:
    tiny = write_family(tmp_path / "tiny", family)
    target = write_medium(tmp_path / "target", family, MEDIUM_TARGET)
    draft = write_medium(tmp_path / "draft", family, MEDIUM_DRAFT) if drafts else None
    pair = f"{target}+{draft}" if draft else str(target)
    peak = measured(tiny, pair, count, dtype, "none")
    assert peak > 100 << 20
    assert estimated(target, draft, count, dtype, "none") == pytest.approx(peak, rel=0.15)


def test_chunks_leave_the_activations_of_one_of_them(tmp_path: Path) -> None:
    """Behind 20,000 tokens of prompt; as much as one call where there is but one."""
    facts = read_facts(write_family(tmp_path / "tiny", "qwen2_5_vl"))

    def working(chunk: int) -> int:
        load = Load(20_000, 20_000, TOKENS, chunk=chunk)
        return pair_memory(facts, None, load, Form("float32")).working

    assert working(0) == working(20_000) == working(30_000)
    assert working(128) < working(512) < 0.5 * working(0)
