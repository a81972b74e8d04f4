"""Imports go downwards only, and what must stay light imports nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "vidcap"

BASE = {"", "errors", "settings", "parts", "threads", "trace"}  # "" is vidcap/__init__.py itself
ENGINE_ROOMS = {"models.geometry", "models", "engine", "video", "output"}
SESSION = {"decoding", "preprocess", "record_parts", "setup", "shortage"}
CAPTIONER = SESSION | {"captioner", "footage", "session"}

#: What each room may import besides itself.
ALLOWED: dict[str, set[str]] = {
    "": CAPTIONER,
    "errors": set(),
    "settings": {"errors"},
    "parts": {"errors", "settings"},
    "threads": set(),
    "trace": {"errors"},
    "models.geometry": BASE,
    "engine": BASE,
    "video": BASE | {"models.geometry"},
    "output": BASE,
    "models": BASE | {"models.geometry", "engine"},
    "footage": BASE | {"models.geometry", "video"},
    "shortage": BASE,
    "setup": BASE | {"models", "engine", "output"},
    "decoding": BASE | {"models", "engine"},
    "preprocess": BASE | {"models", "video"},
    "record_parts": BASE | {"engine", "video", "output"},
    "session": BASE | ENGINE_ROOMS | SESSION,
    "captioner": BASE | ENGINE_ROOMS | CAPTIONER,
    "plan": BASE | ENGINE_ROOMS,
    "doctor": BASE | ENGINE_ROOMS,
    "demo": BASE | ENGINE_ROOMS | CAPTIONER,
    "bench": BASE | ENGINE_ROOMS | CAPTIONER | {"demo"},
    "batch": BASE | ENGINE_ROOMS | CAPTIONER,
    "cli": BASE | ENGINE_ROOMS | CAPTIONER | {"demo", "bench", "batch", "plan", "doctor"},
    "__main__": {"cli"},
}

TORCH = {"torch", "torchvision", "transformers", "accelerate", "safetensors", "qwen_vl_utils"}
HEAVY = TORCH | {"numpy", "av", "huggingface_hub", "PIL"}

FILES = sorted(PACKAGE.rglob("*.py"))


def _module(path: Path) -> str:
    """Dotted name below ``vidcap``; the package itself is the empty string."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _room(module: str) -> str:
    """The room of the house a module belongs to."""
    parts = module.split(".")
    return "models.geometry" if parts[:2] == ["models", "geometry"] else parts[0]


def _imported(nodes: Iterator[ast.AST], package: str) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {package}: write the full name"
            # `from vidcap.models import geometry` names a module only with its last word.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _at_import_time(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when the module is imported: no function bodies, no TYPE_CHECKING blocks."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _at_import_time(child)


def _own_imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    names = _imported(ast.walk(tree), _module(path))
    return {
        _room(_existing(name.split(".", 1)[1] if "." in name else ""))
        for name in names
        if name == "vidcap" or name.startswith("vidcap.")
    }


def _existing(name: str) -> str:
    """The longest leading part of a dotted name that is a module."""
    parts = name.split(".")
    while parts and not (PACKAGE.joinpath(*parts).is_dir() or _file(parts).is_file()):
        parts.pop()
    return ".".join(parts)


def _file(parts: list[str]) -> Path:
    return PACKAGE.joinpath(*parts).with_suffix(".py")


def _foreign(nodes: Iterator[ast.AST], path: Path) -> set[str]:
    return {name.split(".")[0] for name in _imported(nodes, _module(path))}


@pytest.mark.parametrize("path", FILES, ids=_module)
def test_imports_go_downwards_only(path):
    room = _room(_module(path))
    assert _own_imports(path) - {room} <= ALLOWED[room]


LIGHT = {"", "errors", "settings", "parts", "trace", "video", "output", "models.geometry"}


@pytest.mark.parametrize("path", [f for f in FILES if _room(_module(f)) in LIGHT], ids=_module)
def test_light_rooms_never_import_torch(path):
    tree = ast.parse(path.read_text("utf-8"))
    assert not _foreign(ast.walk(tree), path) & TORCH


@pytest.mark.parametrize("path", sorted((PACKAGE / "cli").glob("*.py")), ids=_module)
def test_the_command_line_imports_nothing_heavy(path):
    tree = ast.parse(path.read_text("utf-8"))
    assert not _foreign(ast.walk(tree), path) & TORCH
    assert not _foreign(_at_import_time(tree), path) & HEAVY


def test_the_rule_would_be_noticed():
    """The checks above can fail: a file that breaks each rule is told apart."""
    source = "import torch\nfrom vidcap.engine import loop\ndef f():\n    import numpy\n"
    tree = ast.parse(source)
    path = PACKAGE / "video" / "none.py"
    assert _foreign(ast.walk(tree), path) == {"torch", "vidcap", "numpy"}
    assert _foreign(_at_import_time(tree), path) == {"torch", "vidcap"}
    assert _room(_existing("engine.loop.Generation")) == "engine"
    assert _room(_existing("models.geometry.read_geometry")) == "models.geometry"
    assert "engine" not in ALLOWED["video"]


@pytest.mark.parametrize(
    "statement",
    [
        "import vidcap",
        "import vidcap.cli",
        "import vidcap.settings, vidcap.errors",
        "import vidcap.output.writer",
        "import vidcap.video",
        "import vidcap.models.geometry",
        "import vidcap.models.catalogue",
        "import vidcap.plan",
        "import vidcap.doctor",
        "import vidcap.captioner",
    ],
)
def test_importing_the_light_half_loads_no_torch(statement):
    code = f"{statement}\nimport sys\nprint(sorted({TORCH!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
