"""The configuration file and what it gives way to."""

from __future__ import annotations

import pytest

from vidcap.cli.config import usual_file
from vidcap.settings import GenerationSettings, method_settings


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Writes the usual configuration file."""
    monkeypatch.setattr("vidcap.cli.config.usual_file", lambda: tmp_path / "config.toml")

    def write(text):
        (tmp_path / "config.toml").write_text(text, "utf-8")
        return tmp_path / "config.toml"

    return write


def test_the_usual_file_follows_the_platform(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere")
    assert str(usual_file()) == "/somewhere/vidcap/config.toml"


def test_flag_over_variable_over_file_over_default(cli, clip, config):
    config("fps = 3\n")
    path = clip("a.mp4")
    cli("describe", path)
    cli("describe", path, env={"VIDCAP_FPS": "4"})
    cli("describe", path, "--fps", "5", env={"VIDCAP_FPS": "4"})
    config("")
    cli("describe", path)
    assert [made.settings[1].fps for made in cli.made] == [3.0, 4.0, 5.0, 2.0]


def test_every_kind_of_value_is_taken(cli, clip, config):
    config(
        'pair = "x/y+z/y"\noffline = true\nthreads = 3\nmax-tokens = 7\ntemperature = 0.5\n'
        'start = 5\nend = 00:01:30\nmethod = "sd"\nset = ["prune=0.5", "prune-by=uv"]\n'
    )
    result = cli("describe", clip("a.mp4"))
    assert result.exit_code == 0, result.stderr
    model, video, generation, speculation = cli.made[0].settings
    assert (model.pair, model.offline, model.threads) == ("x/y+z/y", True, 3)
    assert (video.start_s, video.end_s) == (5.0, 90.0)
    assert generation == GenerationSettings(7, temperature=0.5)
    assert speculation == method_settings("sd", prune=0.5, prune_by="uv")


def test_a_table_counts_for_its_command_and_wins_there(cli, clip, config):
    config("max-frames = 8\n[describe]\nmax-frames = 9\n[bench]\ncount = 3\n")
    cli("describe", clip("a.mp4"))
    cli("ask", clip("a.mp4"), "What?")
    assert [made.settings[1].max_frames for made in cli.made] == [9, 8]


def test_switches_can_be_turned_off_for_good(cli, clip, config):
    config('quiet = true\nformat = "text"\n[describe]\nstream = false\n')
    assert cli("describe", clip("a.mp4")).stderr == ""


def test_another_file_is_named_by_option_or_variable(cli, clip, config, tmp_path):
    config("fps = 3\n")
    other = tmp_path / "other.toml"
    other.write_text("fps = 6\n")
    cli("describe", "--config", other, clip("a.mp4"))
    cli("describe", clip("a.mp4"), env={"VIDCAP_CONFIG": str(other)})
    cli("describe", "--config", "/dev/null", clip("a.mp4"), env={"VIDCAP_CONFIG": str(other)})
    assert [made.settings[1].fps for made in cli.made] == [6.0, 6.0, 2.0]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("max-frame = 3", "unknown key 'max-frame'", "did you mean max-frames?"),
        ("max_frames = 3", "unknown key 'max_frames'", "did you mean max-frames?"),
        ("colour = 3", "unknown key 'colour'", "keys are the long names of options"),
        ("[describe]\ncount = 3", "unknown key 'describe.count'", "keys are the long"),
        ("[descripe]\nfps = 3", "unknown command 'descripe'", "did you mean describe?"),
        ("debug = true", "unknown key 'debug'", ""),
        (
            'fps = "many"',
            "fps: not a number",
            "a key for some commands only",
        ),
        ('[describe]\ndtype = "int3"', "dtype: 'int3' is not one of 'auto', 'float32'", ""),
        ("fps = ", "not a configuration file: Invalid value (at", ""),
    ],
)
def test_what_makes_no_sense_is_a_usage_error_with_file_and_key(
    cli, clip, config, text, message, hint
):
    path = config(text)
    result = cli("describe", clip("a.mp4"))
    assert (result.exit_code, result.stdout, cli.made) == (2, "", [])
    first, *rest = result.stderr.splitlines()
    assert first.lower().startswith(f"vidcap: error: {path}: {message}".lower())
    assert len(rest) <= 1
    if hint:
        assert rest[0].startswith(f"hint: {hint}")


def test_a_named_file_must_exist_and_help_needs_none(cli, clip, tmp_path, config):
    config("nonsense = 1")
    result = cli("describe", "--config", tmp_path / "none.toml", clip("a.mp4"))
    assert result.exit_code == 2
    assert result.stderr == f"vidcap: error: {tmp_path / 'none.toml'}: no such configuration file\n"
    assert cli("describe", "--help").exit_code == 0


def test_another_pair_is_not_mixed_with_halves_of_the_usual_one(cli, clip, config):
    config('pair = "a/b+c/b"\ntarget = "a/big"\ndraft = "a/small"\n')
    cli("describe", clip("a.mp4"))
    cli("describe", "--pair", "demo", clip("a.mp4"))
    cli("describe", "--target", "x/y", clip("a.mp4"))
    found = [(m.settings[0].pair, m.settings[0].target, m.settings[0].draft) for m in cli.made]
    assert found == [
        ("a/b+c/b", "a/big", "a/small"),
        ("demo", None, None),
        ("a/b+c/b", "x/y", "a/small"),
    ]


def test_another_method_drops_the_parts_that_were_set_for_the_usual_one(cli, clip, config):
    config('method = "sd"\ndraft-tokens = 7\n')
    path = clip("a.mp4")
    cli("describe", path)
    cli("describe", "--method", "plain", path)
    cli("describe", path, env={"VIDCAP_METHOD": "sd-tree"})
    cli("describe", "--method", "sd", "--draft-tokens", "3", path)
    assert [made.settings[3] for made in cli.made] == [
        method_settings("sd", draft_tokens=7),
        method_settings("plain"),
        method_settings("sd-tree"),
        method_settings("sd", draft_tokens=3),
    ]


def test_a_flag_and_its_contrary_in_the_file_do_not_clash(cli, clip, config):
    config('draft = "a/small"\n')
    cli("describe", "--no-draft", clip("a.mp4"))
    config("no-draft = true\n")
    cli("describe", "--draft", "a/small", clip("a.mp4"))
    models = [made.settings[0] for made in cli.made]
    assert [(model.draft, model.use_draft) for model in models] == [
        (None, False),
        ("a/small", True),
    ]
