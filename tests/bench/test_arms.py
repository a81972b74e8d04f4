from __future__ import annotations

import pytest

from vidcap.bench.arms import DEFAULT_ARMS, GENERATES, Arm, loading_method, make_arms, parse_grid
from vidcap.errors import UsageError
from vidcap.parts import parse_fixed, parse_part, part_values
from vidcap.settings import METHODS, method_settings


def names(arms: list[Arm]) -> list[str]:
    return [arm.name for arm in arms]


def test_methods_run_as_their_presets_and_transformers_without_a_method() -> None:
    arms = make_arms(DEFAULT_ARMS, {}, {})
    assert arms == [
        Arm("plain", METHODS["plain"]),
        Arm("sd-tree", METHODS["sd-tree"]),
        Arm("transformers", None),
    ]
    assert [arm.needs_draft for arm in arms] == [False, True, False]
    assert [arm.promises_exactness for arm in arms] == [True, True, False]
    assert [arm.settings()["method"] for arm in arms] == ["plain", "sd-tree", "transformers"]


def test_transformers_drafts_with_the_draft_or_a_look_up() -> None:
    plain, assisted, lookup = make_arms(GENERATES, {}, {})
    assert (plain.name, assisted.name, lookup.name) == GENERATES
    assert [arm.needs_draft for arm in (plain, assisted, lookup)] == [False, True, False]
    assert not any(arm.promises_exactness for arm in (plain, assisted, lookup))
    assert assisted.settings() == {"method": "transformers-assisted"}
    assert lookup.settings() == {"method": "transformers-lookup", "prompt_lookup_num_tokens": 10}


@pytest.mark.parametrize(
    ("arms", "method"),
    [
        (["plain", "transformers", "lookup"], "plain"),
        (["plain", "specvlm", "sd"], "specvlm"),
        (["transformers-assisted"], "sd"),
        (["transformers-assisted", "sd-tree"], "sd-tree"),
    ],
)
def test_the_draft_is_loaded_where_an_arm_needs_it(arms: list[str], method: str) -> None:
    assert loading_method(make_arms(arms, {}, {})) == METHODS[method]


def test_every_method_is_an_arm_and_an_arm_named_twice_runs_once() -> None:
    assert names(make_arms([*METHODS, *METHODS], {}, {})) == list(METHODS)


def test_a_set_part_applies_to_the_arms_that_have_it() -> None:
    plain, sd, tree = make_arms(["plain", "sd", "sd-tree"], {"draft-tokens": "3"}, {})
    assert sd == Arm("sd", method_settings("sd", draft_tokens=3))
    assert (plain.speculation, tree.speculation) == (METHODS["plain"], METHODS["sd-tree"])
    assert sd.settings()["draft_tokens"] == 3
    assert "draft_tokens" not in tree.settings()


def test_a_grid_multiplies_the_arms_that_have_the_part_and_names_them() -> None:
    arms = make_arms(["plain", "sd", "transformers"], {}, {"draft-tokens": ("3", "7")})
    assert names(arms) == ["plain", "sd[draft-tokens=3]", "sd[draft-tokens=7]", "transformers"]
    assert arms[2].speculation == method_settings("sd", draft_tokens=7)


def test_two_grids_give_every_combination_that_makes_a_difference() -> None:
    grid = {"tree": ("chain", "static"), "draft-tokens": ("2", "4")}
    assert names(make_arms(["sd"], {}, grid)) == [
        "sd[tree=chain,draft-tokens=2]",
        "sd[tree=chain,draft-tokens=4]",
        "sd[tree=static]",
    ]


def test_a_part_may_become_one_through_another() -> None:
    (arm,) = make_arms(["sd"], {"prune": "0.5", "prune-by": "random"}, {})
    assert arm.speculation == method_settings("sd", prune=0.5, prune_by="random")
    full, pruned = make_arms(["sd"], {"prune-by": "random"}, {"prune": ("0", "0.5")})
    assert (full.name, pruned.name) == ("sd[prune=0]", "sd[prune=0.5]")
    assert full.speculation == method_settings("sd", prune=0.0)


@pytest.mark.parametrize(
    ("arms", "fixed", "grid", "message"),
    [
        (["magic"], {}, {}, "unknown arm 'magic'"),
        (["sd"], {"magic": "1"}, {}, "no method has a setting 'magic'"),
        (["sd"], {"summary": "x"}, {}, "no method has a setting 'summary'"),
        (["sd"], {"draft-tokens": "x"}, {}, "draft-tokens takes a whole number, not 'x'"),
        (["sd"], {"draft-tokens": "2.5"}, {}, "draft-tokens takes a whole number, not '2.5'"),
        (["sd"], {"prune": "x"}, {}, "prune takes a number, not 'x'"),
        (["sd"], {"tree": "oak"}, {}, "tree takes one of chain, static, .* not 'oak'"),
        (["sd"], {"draft-tokens": "99"}, {}, "draft-tokens must be between 1 and 64, not 99"),
        (["sd"], {}, {"draft-tokens": ("99",)}, "must be between"),
        (["plain"], {"draft-tokens": "3"}, {}, "draft-tokens makes no difference to any arm"),
        (["transformers"], {}, {"prune": ("0.5",)}, "prune makes no difference to any arm"),
        (["sd"], {"prune": "0"}, {"prune": ("0",)}, "'prune' is set and varied at once"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(
    arms: list[str], fixed: dict[str, str], grid: dict[str, tuple[str, ...]], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make_arms(arms, fixed, grid)


def test_a_draft_length_of_auto_is_a_tree() -> None:
    arms = make_arms(["plain", "sd", "lookup"], {}, {"draft-tokens": ("auto", "3")})
    assert names(arms) == [
        "plain",
        "sd[draft-tokens=auto]",
        "sd[draft-tokens=3]",
        "lookup",
        "lookup[draft-tokens=3]",
    ]
    assert arms[1].speculation == method_settings("sd", tree="auto")
    (alone,) = make_arms(["specvlm"], {"draft-tokens": "auto"}, {})
    assert alone == Arm("specvlm", method_settings("specvlm", tree="auto"))
    with pytest.raises(UsageError, match="makes no difference to any arm") as caught:
        make_arms(["plain"], {"draft-tokens": "auto"}, {})
    assert (caught.value.hint or "").startswith("it belongs to: sd, parallelvlm, ")
    assert part_values("draft-tokens") == "1 to 64, or auto"


def test_auto_comes_strict_and_loose() -> None:
    arms = make_arms(["plain", "auto"], {"verify": "loose"}, {"loose-fraction": ("0", "0.9")})
    assert names(arms) == ["plain", "auto[loose-fraction=0]", "auto[loose-fraction=0.9]"]
    assert arms[2].speculation == method_settings("auto", verify="loose", loose_fraction=0.9)


def test_assignments_are_read() -> None:
    assert parse_fixed(["draft-tokens=3", " prune = 0.5 "]) == {"draft-tokens": "3", "prune": "0.5"}
    assert parse_grid(["prune=0, 0.5,0"]) == {"prune": ("0", "0.5")}


@pytest.mark.parametrize("text", ["prune", "prune=", "=1", ""])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--set takes KEY=VALUE, not"):
        parse_fixed([text])
    with pytest.raises(UsageError, match="--grid takes KEY=V1,V2, not"):
        parse_grid([text])


def test_a_key_comes_once() -> None:
    with pytest.raises(UsageError, match="'prune' is given twice"):
        parse_fixed(["prune=1", "prune=0"])


def test_values_have_the_type_of_the_setting() -> None:
    assert parse_part("draft-tokens", "3") == 3
    assert parse_part("prune", "1") == 1.0
    assert isinstance(parse_part("prune", "1"), float)
    assert parse_part("prune-by", "uv") == "uv"
    assert parse_part("uv-layer", "4") == 4
