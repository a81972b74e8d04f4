"""Scales that do not fit their weights, from what the files declare alone."""

from __future__ import annotations

from typing import Any

import pytest

from vidcap.errors import ModelError
from vidcap.models.scales import check_scales
from vidcap.models.weights import StoredTensor

Shape = tuple[int, ...]


def check(quantization: Any, **parts: tuple[str, Shape]) -> None:
    tensors = {f"up.{name}": StoredTensor(*part) for name, part in parts.items()}
    check_scales({"quantization_config": quantization}, tensors, "it")


def integers(method: str, **changes: tuple[str, Shape]) -> dict[str, tuple[str, Shape]]:
    """A weight of 64 inputs and 96 outputs in groups of 32, with 4 bits."""
    weight = (64, 12) if method == "awq" else (8, 96)
    parts = {"qweight": ("I32", weight), "qzeros": ("I32", (2, 12)), "scales": ("F16", (2, 96))}
    return parts | changes


def compressed(**weights: Any) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": weights}},
    }


@pytest.mark.parametrize("method", ["awq", "gptq"])
@pytest.mark.parametrize(
    "changes",
    [
        {"scales": ("F16", (96, 2))},
        {"scales": ("F16", (96,))},
        {"scales": ("F16", (0, 96))},
        {"scales": ("F16", (1, 96))},
        {"scales": ("F16", (2, 1))},
        {"qzeros": ("I32", (1, 12))},
        {"qzeros": ("I32", (2, 1))},
        {"qweight": ("I16", (64, 12))},
        {"qweight": ("I32", ())},
    ],
)
def test_tensors_of_awq_and_gptq_have_the_shapes_of_one_weight(
    method: str, changes: dict[str, tuple[str, Shape]]
) -> None:
    form = {"quant_method": method, "bits": 4, "group_size": 32}
    check(form, **integers(method))
    with pytest.raises(ModelError, match=r"it: the weights of up and their scales do not fit"):
        check(form, **integers(method, **changes))


@pytest.mark.parametrize(
    ("size", "fits"), [(32, True), (None, True), ("32", True), (16, False), (-1, False)]
)
def test_groups_are_as_large_as_the_configuration_says(size: object, fits: bool) -> None:
    form = {"quant_method": "awq", "bits": 4, "group_size": size}
    if fits:
        check(form, **integers("awq"))
    else:
        with pytest.raises(ModelError, match="do not fit"):
            check(form, **integers("awq"))
    one = {"qzeros": ("I32", (1, 12)), "scales": ("F16", (1, 96))}
    check(form | {"group_size": -1}, **integers("awq", **one))


def test_every_input_of_gptq_is_in_a_group() -> None:
    form = {"quant_method": "gptq", "bits": 4, "group_size": 32}
    check(form, **integers("gptq", g_idx=("I32", (64,))))
    for shape in ((), (1,), (32,), (64, 1)):
        with pytest.raises(ModelError, match="do not fit"):
            check(form, **integers("gptq", g_idx=("I32", shape)))


@pytest.mark.parametrize(
    ("scale", "block"),
    [((1, 3, 2), [32, 32]), ((1, 1), [32, 32]), ((2, 3), [32, 32]), ((3, 2), ["a", "b"])],
)
def test_blocks_of_fp8_are_as_large_as_the_configuration_says(
    scale: Shape, block: list[Any]
) -> None:
    def has(scale: Shape, block: Any) -> None:
        form = {"quant_method": "fp8", "weight_block_size": block}
        check(form, weight=("F8_E4M3", (96, 64)), weight_scale_inv=("F32", scale))

    has((3, 2), [32, 32])
    has((1, 1), [128, 128])
    has((1, 1), None)
    with pytest.raises(ModelError, match="does not consist of whole blocks"):
        has(scale, block)


@pytest.mark.parametrize(
    ("weights", "stored", "scale", "fits"),
    [
        ({"strategy": "channel", "num_bits": 8}, ("I8", (96, 64)), (96, 1), True),
        ({"strategy": "channel", "num_bits": 8}, ("I8", (96, 64)), (1,), False),
        ({"strategy": "channel", "num_bits": 8}, ("F8_E4M3", (64, 64)), (64,), False),
        ({"strategy": "tensor", "num_bits": 8}, ("F8_E4M3", (96, 64)), (1,), True),
        ({"strategy": "group", "group_size": 32, "num_bits": 4}, ("I32", (96, 8)), (96, 2), True),
        ({"strategy": "group", "group_size": 32, "num_bits": 2}, ("I32", (96, 8)), (96, 2), False),
        ({"strategy": "group", "group_size": 16, "num_bits": 4}, ("I32", (96, 8)), (96, 2), False),
    ],
)
def test_every_row_of_compressed_tensors_has_scales(
    weights: dict[str, Any], stored: tuple[str, Shape], scale: Shape, fits: bool
) -> None:
    name = "weight_packed" if stored[0] == "I32" else "weight"
    parts = {name: stored, "weight_scale": ("F32", scale)}
    if fits:
        check(compressed(**weights), **parts)
    else:
        with pytest.raises(ModelError, match="do not fit"):
            check(compressed(**weights), **parts)


def test_rounded_numbers_without_a_method_are_refused() -> None:
    for form in (None, {}):
        check(form, weight=("BF16", (96, 64)))
        with pytest.raises(ModelError, match=r"stores up\.weight as F8_E4M3 and does not say"):
            check(form, weight=("F8_E4M3", (96, 64)), weight_scale=("F32", (96, 1)))
    check({"quant_method": "torchao"}, weight=("I8", (96, 64)))
