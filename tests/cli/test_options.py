from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, get_args, get_type_hints

import pytest
import typer

from vidcap.cli.app import app
from vidcap.cli.binding import grouped, option
from vidcap.cli.values import parse_time, read_text
from vidcap.errors import UsageError
from vidcap.settings import (
    DEFAULT_METHOD,
    METHODS,
    AttentionName,
    GenerationSettings,
    ModelSettings,
    PositionPolicy,
    VideoSettings,
    method_settings,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1:30", 90.0),
        ("00:01:30.250", 90.25),
        ("100:00:00", 360000.0),
        ("-3", -3.0),
    ],
)
def test_times_are_seconds_or_clock(text, seconds):
    assert parse_time(text, "--start") == seconds


@pytest.mark.parametrize("text", ["", "abc", "1:60", "1:2:3:4", "nan", "inf", "1e3", "1:-2", "5s"])
def test_what_is_no_time_is_a_usage_error(text):
    with pytest.raises(UsageError, match="--start takes seconds or HH:MM:SS"):
        parse_time(text, "--start")


def test_text_may_stand_in_a_file(tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text("  two\nlines\n", "utf-8")
    assert read_text(f"@{path}", "--prompt") == "two\nlines"
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_text(f"@{path}", "--prompt")
    with pytest.raises(UsageError, match="No such file"):
        read_text(f"@{tmp_path / 'none'}", "--prompt")
    with pytest.raises(UsageError, match="--prompt is empty"):
        read_text(" ", "--prompt")


def test_the_defaults_are_those_of_the_settings(cli, clip):
    cli("describe", clip("a.mp4"))
    assert cli.made[0].settings == (
        ModelSettings(),
        VideoSettings(),
        GenerationSettings(),
        method_settings(DEFAULT_METHOD),
    )


def test_every_option_reaches_its_setting(cli, clip):
    result = cli(
        *("describe", "-m", "demo", "--target", "t", "--draft", "d", "--revision", "r"),
        *("--device", "cpu", "--draft-device", "cuda:1", "--dtype", "float32"),
        *("--positions", "transformers", "--offline", "--threads", "3"),
        *("--quantize", "int8", "--draft-quantize", "int4", "--attn", "sdpa"),
        *("--fps", "1.5", "--max-frames", "9", "--max-pixels", "5000"),
        *("--start", "0:10", "--end", "00:01:00.5", "--max-tokens", "17"),
        *("--temperature", "0.5", "--top-p", "0.9", "--seed", "4"),
        *("--method", "sd", "--draft-tokens", "7", "--prune", "0.9", "--prune-by", "uv"),
        *("--set", "uv-layer=2", "--set", "prune-select=top", clip("a.mp4")),
    )
    assert result.exit_code == 0, result.stderr
    model, video, generation, speculation = cli.made[0].settings
    assert model == ModelSettings(
        *("demo", "t", "d", True, "r", "cpu", "cuda:1", "float32", "transformers", True, 3),
        *("int8", "int4", "sdpa"),
    )
    assert video == VideoSettings(1.5, 9, 5000, 10.0, 60.5)
    assert generation == GenerationSettings(17, temperature=0.5, top_p=0.9, seed=4)
    assert speculation == method_settings(
        "sd", draft_tokens=7, prune=0.9, prune_by="uv", uv_layer=2, prune_select="top"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--draft-tokens", "auto"],
        ["--draft-tokens", "auto", "--tree", "auto"],
        ["--set", "draft-tokens=auto"],
    ],
)
def test_a_draft_length_of_auto_is_the_tree_that_grows_as_it_pays(cli, clip, words):
    path = clip("a.mp4")
    for method in ("sd", "specvlm", "lvspec"):
        result = cli("describe", "--method", method, *words, path)
        assert result.exit_code == 0, result.stderr
        assert cli.made[-1].settings[3] == method_settings(method, tree="auto")
    cli("describe", *words, path)
    assert cli.made[-1].settings[3] == METHODS["auto"]


def test_auto_may_verify_loosely_and_prefill_in_chunks(cli, clip):
    path = clip("a.mp4")
    for words in (["--verify", "loose"], ["--method", "auto", "--loose-rule", "lvspec"]):
        result = cli("describe", *words, "--set", "prefill-chunk=512", path)
        assert result.exit_code == 0, result.stderr
        assert cli.made[-1].settings[3] == method_settings(
            "auto", verify="loose", prefill_chunk=512
        )
    cli("describe", "--no-draft", "--set", "prefill-chunk=64", path)
    assert cli.made[-1].settings[3] == method_settings("plain", prefill_chunk=64)
    assert "chains only" in cli("describe", "--loose-rule", "fly", path).stderr


def test_no_draft_decodes_plainly(cli, clip):
    cli("describe", "--no-draft", clip("a.mp4"))
    model, _, _, speculation = cli.made[0].settings
    assert not model.use_draft
    assert speculation == METHODS["plain"]


def test_the_flag_wins_over_the_variable_and_the_variable_over_the_default(cli, clip):
    path = clip("a.mp4")
    cli("describe", path, env={"VIDCAP_FPS": "3", "VIDCAP_METHOD": "plain"})
    cli("describe", path, "--fps", "4", env={"VIDCAP_FPS": "3"})
    cli("describe", path, env={"VIDCAP_FPS": ""})
    assert [made.settings[1].fps for made in cli.made] == [3.0, 4.0, 2.0]
    assert cli.made[0].settings[3].method == "plain"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fps", "0"], "--fps must be above 0 and at most 1000, not 0"),
        (["--fps", "x"], "invalid value for '--fps': not a number\n"),
        (["--max-frames", "1.5"], "invalid value for '--max-frames': not a whole number\n"),
        (["--prune", "2"], "invalid value for '--prune': must be at most 1\n"),
        (["--start", "5", "--end", "3"], "--end (3 s) must be after --start (5 s)"),
        (["--start", "x"], "--start takes seconds or HH:MM:SS, not 'x'"),
        (["--method", "magic"], f"unknown method 'magic'\nhint: methods: {', '.join(METHODS)}"),
        (["--method", "sd", "--no-draft"], "--method sd needs a draft, --no-draft takes it away"),
        (["--draft", "d", "--no-draft"], "--draft and --no-draft contradict each other"),
        (["--draft-device", "cuda:0,cuda:1"], "--draft-device takes one device"),
        (
            ["--draft-tokens", "3"],
            f"draft-tokens makes no difference to method '{DEFAULT_METHOD}' with tree 'auto'\n"
            "hint: it belongs to: sd, parallelvlm, lvspec, fly, lookup, self; "
            f"here with tree=chain; --method names another method than {DEFAULT_METHOD}, "
            "`vidcap models list`",
        ),
        (
            ["--method", "plain", "--draft-tokens", "3"],
            "draft-tokens makes no difference to method 'plain'\nhint: it belongs to: sd, ",
        ),
        (
            ["--method", "sd-tree", "--loose-rule", "fly", "--verify", "loose", "--prune-by", "uv"],
            "FLy judges chains only",
        ),
        (
            ["--method", "sd-tree", "--set", "loose-delta=0.1"],
            "loose-delta makes no difference to method 'sd-tree'\n"
            "hint: it belongs to: lvspec; here with verify=loose\n",
        ),
        (
            ["--method", "sd", "--set", "tree-nodes=9"],
            "tree-nodes makes no difference to method 'sd' with tree 'chain'\n"
            "hint: here with tree=dynamic\n",
        ),
        (
            ["--method", "lookup", "--set", "tree-nodes=9"],
            "tree-nodes makes no difference to method 'lookup'\nhint: it belongs to: tree=dynamic",
        ),
        (
            ["--method", "sd", "--set", "prune-seed=9"],
            "prune-seed makes no difference to method 'sd'\n"
            "hint: here with prune=0.9 and prune-by=random\n",
        ),
        (
            ["--set", "startup=off"],
            f"startup makes no difference to method '{DEFAULT_METHOD}'\n"
            "hint: it belongs to: parallelvlm; here with prefill=parallel and tree=chain; ",
        ),
        (
            ["--method", "sd", "--set", "prune-select=top"],
            "prune-select makes no difference to method 'sd'\n"
            "hint: it belongs to: specvlm, parallelvlm, self; here with prune=0.9\n",
        ),
        (["--method", "sd", "--draft-tokens", "x"], "draft-tokens takes a whole number, not 'x'"),
        (["--method", "sd", "--draft-tokens", "99"], "draft-tokens must be between 1 and 64"),
        (
            ["--method", "sd", "--draft-tokens", "auto", "--tree", "chain"],
            "draft-tokens=auto and tree=chain contradict each other",
        ),
        (
            ["--method", "sd-tree", "--draft-tokens", "3"],
            "draft-tokens makes no difference to method 'sd-tree' with tree 'static'",
        ),
        (["--method", "sd", "--prune-by", "uv"], "prune-by makes no difference to"),
        (["--method", "sd", "--prune", "0.5", "--set", "prune=0.7"], "'prune' is given twice"),
        (["--method", "sd", "--set", "prune"], "--set takes KEY=VALUE, not 'prune'"),
        (["--method", "sd", "--set", "colour=red"], "no method has a setting 'colour'"),
        (
            ["--verify", "strict", "--loose-fraction", "0.5"],
            "--verify strict and --loose-fraction contradict each other",
        ),
        (
            ["--method", "lvspec", "--loose-rule", "fly", "--loose-fraction", "0.5"],
            "--loose-rule fly has no --loose-fraction",
        ),
        (
            ["--no-viskip", "--set", "viskip=0.2"],
            "--no-viskip and --set viskip contradict each other",
        ),
        (["--method", "self", "--set", "kept-positions=compact"], "self-drafting keeps"),
        (["--threads", "0"], "invalid value for '--threads': must be at least 1\n"),
        (["--dtype", "int3"], "invalid value for '--dtype': 'int3' is not one of"),
        (["--format", "xml"], "invalid value for '--format': 'xml' is not one of"),
        (["--prompt", ""], "--prompt is empty"),
        (["--nonsense"], "no such option: --nonsense"),
        (["--max-frame", "3"], "no such option: --max-frame\nhint: did you mean --max-frames"),
        (["--fps"], "option '--fps' requires an argument"),
    ],
)
def test_usage_errors_are_one_line_and_end_with_2(cli, clip, words, message):
    result = cli("describe", clip("a.mp4"), *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.lower().startswith(f"vidcap: error: {message}".lower())
    assert len(result.stderr.splitlines()) <= 2
    assert cli.made == []


def test_an_error_names_the_variable_where_that_is_where_the_value_came_from(cli, clip):
    result = cli("describe", clip("a.mp4"), env={"VIDCAP_MAX_FRAMES": "many"})
    assert result.exit_code == 2
    assert "'--max-frames' (env var: 'VIDCAP_MAX_FRAMES')" in result.stderr


@pytest.mark.parametrize("words", [["describe"], ["nonsense"], ["--nonsense"]])
def test_a_wrong_command_line_is_one_line_too(cli, words):
    result = cli(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith("vidcap: error: ")
    assert result.stderr.splitlines()[1].startswith("hint: see vidcap")


def test_bare_vidcap_prints_help(cli):
    bare, asked = cli(), cli("--help")
    assert bare.exit_code == asked.exit_code == 0
    assert bare.stdout == asked.stdout
    assert "describe" in bare.stdout


def test_version(cli):
    import vidcap

    assert cli("--version").stdout == f"vidcap {vidcap.__version__}\n"


def _commands():
    return typer.main.get_command(app).commands.items()


def test_no_command_has_an_option_twice_and_each_has_its_variable():
    for _, command in _commands():
        names = [name for item in command.params for name in (*item.opts, *item.secondary_opts)]
        assert len(names) == len(set(names))
        for item in command.params:
            if item.param_type_name == "option" and item.name != "help":
                long_name = next(name for name in item.opts if name.startswith("--"))
                assert item.envvar == "VIDCAP_" + long_name[2:].replace("-", "_").upper()
                assert item.help


def test_help_offers_the_choices_of_the_settings():
    options = {item.name: item for item in dict(_commands())["describe"].params}
    assert options["method"].metavar == "|".join(METHODS)
    assert tuple(options["positions"].type_descriptor.choices) == get_args(PositionPolicy)
    assert tuple(options["attn"].type_descriptor.choices) == get_args(AttentionName)
    dtypes = get_args(get_type_hints(ModelSettings)["dtype"])
    assert tuple(options["dtype"].type_descriptor.choices) == dtypes


@dataclass(frozen=True)
class Inner:
    size: Annotated[int, option("--size", help="Size.", panel="P")] = 3


@dataclass(frozen=True)
class Outer:
    inner: Inner
    name: Annotated[str, option("-n", "--name", help="Name.", panel="P")] = "x"


def _command(path: Annotated[str, typer.Argument()], outer: Outer) -> int:
    assert outer == Outer(Inner(5), "y")
    return len(path)


def test_groups_become_flat_parameters_and_come_back_filled():
    flat = grouped(_command)
    parameters = inspect.signature(flat).parameters
    assert list(parameters) == ["path", "size", "name"]
    assert (parameters["size"].default, parameters["name"].default) == (3, "x")
    assert flat(path="four", size=5, name="y") == 4
