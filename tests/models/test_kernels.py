"""Choosing what computes the attention."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.engine.runs import Run
from tests.tiny import random_frames
from vidcap.engine import kernels as attention
from vidcap.errors import ModelError
from vidcap.models import kernels
from vidcap.models.checkpoint import read_checkpoint
from vidcap.models.kernels import attention_words, check_attention, vision_kernel
from vidcap.models.loading import LoadedPair, load_pair_folders
from vidcap.models.pair import find_pair
from vidcap.settings import AttentionName, ModelSettings, method_settings

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")
METHODS = [
    method_settings("plain"),
    method_settings("sd-tree"),
    method_settings("specvlm"),
    method_settings("parallelvlm"),
    method_settings("sd", tree="dynamic", viskip=0.35),
]


def load(target: Path, draft: Path, choice: AttentionName) -> LoadedPair:
    settings = ModelSettings(
        pair=f"{target}+{draft}", device="cpu", dtype="float32", threads=1, attention=choice
    )
    return load_pair_folders(find_pair(settings, needs_draft=True), settings)


def test_every_choice_gives_the_same_tokens_in_float32(
    tiny_target: Path, tiny_perturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    products: list[int] = []
    reference = attention.attend_reference

    def counted(*tensors: object) -> object:
        products.append(1)
        return reference(*tensors)

    monkeypatch.setattr(attention, "attend_reference", counted)
    answers, used = {}, {}
    for choice in ("auto", "sdpa", "flash"):
        pair = load(tiny_target, tiny_perturbed, choice)
        for model in (pair.target, pair.draft):
            assert model.language.kv_spec.attention == choice
        inputs = pair.target.prepare(random_frames(6, 112, 140, seed=6), fps=2.0)
        run = Run(pair.target, pair.draft, inputs, max_tokens=24)
        products.clear()
        answers[choice] = [run.ask("What moves?", method)[0] for method in METHODS]
        used[choice] = bool(products)
        assert answers[choice] == [run.transformers("What moves?")] * len(METHODS)
    assert answers["auto"] == answers["sdpa"] == answers["flash"]
    assert used == {"auto": False, "sdpa": True, "flash": False}


def test_what_runs_is_named(
    tiny_target: Path, tiny_draft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {
        choice: load(tiny_target, tiny_draft, choice).attention
        for choice in ("auto", "sdpa", "flash")
    }
    assert names["auto"] == names["flash"] == "flash (prefix + tail), sdpa (prefill, vision)"
    assert names["sdpa"] == "matmul (prefix + tail), sdpa (prefill, vision)"
    checkpoint = read_checkpoint(tiny_target)
    monkeypatch.setattr(kernels, "flash_works", lambda device, dtype, size: True)
    on_gpu = attention_words("auto", checkpoint, CUDA, torch.bfloat16)
    assert on_gpu == "flash (prefix), matmul (tail), sdpa (prefill, vision)"
    monkeypatch.setattr(kernels, "vision_kernel", lambda *a: "flash_attention_2")
    demanded = attention_words("flash", checkpoint, CUDA, torch.bfloat16)
    assert demanded.endswith("sdpa (prefill), flash_attention_2 (vision)")


def test_a_flash_kernel_that_does_not_run_is_told_before_weights_are_loaded(
    tiny_target: Path, tiny_draft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vidcap.models.loading.load_weights", lambda *a: pytest.fail("loaded"))
    monkeypatch.setattr(kernels, "flash_works", lambda device, dtype, size: False)
    with pytest.raises(ModelError) as caught:
        load(tiny_target, tiny_draft, "flash")
    assert caught.value.exit_code == 3
    assert caught.value.message == (
        "--attn flash: torch's flash kernel does not run on cpu in float32 with heads of 16 numbers"
    )
    assert "--attn auto" in (caught.value.hint or "")


def test_the_draft_needs_the_kernel_too(
    tiny_target: Path, tiny_draft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []

    def check(choice: str, checkpoint: object, *where: object) -> None:
        seen.append(checkpoint.folder)  # type: ignore[attr-defined]

    monkeypatch.setattr("vidcap.models.loading.check_attention", check)
    load(tiny_target, tiny_draft, "flash")
    assert seen == [tiny_target, tiny_draft]


def test_cuda_has_no_flash_kernel_for_float32(tiny_target: Path) -> None:
    with pytest.raises(ModelError, match="does not run on cuda:0 in float32"):
        check_attention("flash", read_checkpoint(tiny_target), CUDA, torch.float32)
    check_attention("auto", read_checkpoint(tiny_target), CUDA, torch.float32)


def test_without_a_kernel_auto_takes_plain_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "flash_works", lambda *a: False)
    monkeypatch.setattr(attention, "_flash_on_cpu", lambda *a: pytest.fail("it ran"))
    query, key = torch.randn(1, 2, 5, 8), torch.randn(1, 2, 9, 8)
    out, _ = attention.attend(query, key, key, 0.3)
    expected, _ = attention.attend_reference(query, key, key, 0.3)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_flash_kernel_of_cpus_runs_in_every_format(dtype: torch.dtype) -> None:
    assert attention.flash_works(CPU, dtype, 128)


def test_flash_attn_is_taken_where_it_is_demanded_and_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from transformers.utils import import_utils

    for installed in (False, True):
        monkeypatch.setattr(
            import_utils, "is_flash_attn_2_available", lambda there=installed: there
        )
        taken = "flash_attention_2" if installed else "sdpa"
        assert vision_kernel("flash", CUDA, torch.bfloat16) == taken
        for choice, device, dtype in (
            ("auto", CUDA, torch.bfloat16),
            ("sdpa", CUDA, torch.bfloat16),
            ("flash", CUDA, torch.float32),
            ("flash", CPU, torch.bfloat16),
        ):
            assert vision_kernel(choice, device, dtype) == "sdpa"


def test_the_size_of_a_head_is_the_models_own_or_its_share(tiny_target: Path) -> None:
    checkpoint = read_checkpoint(tiny_target)
    assert kernels.head_size(checkpoint) == 16
    text = checkpoint.config.get_text_config()
    text.head_dim = 24
    assert kernels.head_size(replace(checkpoint)) == 24
