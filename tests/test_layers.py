"""Imports point one way (docs/architecture.md): read from the source, whatever happens to run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import s0d

ROOT = Path(s0d.__file__).parent

# What each layer may import, beside itself.
ALLOWED: dict[str, set[str]] = {
    "model": set(),
    "wire": {"model"},
    "journal": {"model"},
    "process": {"model"},
    "terminal": {"model"},
    "supervisor": {"model", "wire", "journal", "process", "terminal"},
    "api": {"model", "wire", "journal", "process", "terminal", "supervisor"},
    "daemon": {"model", "wire", "journal", "process", "terminal", "supervisor", "api", "declare"},
    "declare": {"model"},
    "cli": {"model", "wire", "declare"},
    "mcp": {"model", "wire"},
}
# Inside a function, or for the type checker alone: where a daemon would be, and starting one; the
# tools for models, which need an extra.
LAZILY: dict[str, set[str]] = {"api": {"mcp"}, "cli": {"daemon", "mcp"}}
# Of `s0d` itself: the version and nothing else.
PLAIN = {"", "__version__"}

LAYERS = sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").exists())


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The absolute names that a module imports, and whether only inside a function or for types."""
    tree = ast.parse(path.read_text())
    inside = {id(node) for lazy in ast.walk(tree) if is_lazy(lazy) for node in ast.walk(lazy)}
    package = (ROOT.name, *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield name, id(node) in inside


def is_lazy(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def offences(path: Path, layer: str) -> list[str]:
    found = []
    for name, lazily in imports(path):
        top, _, rest = name.partition(".")
        if top != "s0d" or rest in PLAIN:
            continue
        other = rest.partition(".")[0]
        allowed = ALLOWED[layer] | {layer} | (LAZILY.get(layer, set()) if lazily else set())
        if other not in allowed:
            found.append(f"{path.relative_to(ROOT)} imports {name}")
    return found


def test_every_package_is_a_layer() -> None:
    assert set(LAYERS) == set(ALLOWED)


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_one_way(layer: str) -> None:
    modules = sorted((ROOT / layer).rglob("*.py"))
    assert [line for path in modules for line in offences(path, layer)] == []


@pytest.mark.parametrize(
    ("source", "layer", "offends"),
    [
        ("import s0d.journal", "model", True),
        ("from s0d import journal", "model", True),
        ("from ..api import app", "supervisor", True),
        ("from ..model import spec", "supervisor", False),
        ("from . import actor", "supervisor", False),
        ("from s0d.daemon.paths import default_socket", "cli", True),
        ("def f():\n    from s0d.daemon.paths import default_socket", "cli", False),
        ("def f():\n    from s0d.supervisor import Supervisor", "cli", True),
        ("if TYPE_CHECKING:\n    import s0d.api", "supervisor", True),
        ("if True:\n    import s0d.terminal.screen", "journal", True),
        ("from s0d import __version__\nimport trio", "cli", False),
    ],
)
def test_the_reader_of_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, layer: str, offends: bool
) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path / "s0d")
    path = tmp_path / "s0d" / layer / "module.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert bool(offences(path, layer)) is offends
