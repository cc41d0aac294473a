"""The source as data: each module with its path, its text and its tree. Nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
PACKAGE = SRC / "loopctl"


@dataclass(frozen=True)
class Module:
    """One file of the library."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """As written in the lists of these tests: `concurrency/_race.py`."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def package(self) -> str:
        """The package it belongs to: `concurrency`; `errors` and the face are their own."""
        return self.name.split("/")[0].removesuffix(".py")

    def at(self, node: ast.AST) -> str:
        """Where *node* stands, as an editor understands it."""
        return f"{self.path.relative_to(ROOT)}:{node.lineno}"  # type: ignore[attr-defined]


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the library."""
    paths = sorted(PACKAGE.rglob("*.py"))
    assert len(paths) > 20, "the library was not found, so nothing would be checked"
    return tuple(Module(path, text := path.read_text(encoding="utf-8"), ast.parse(text, str(path))) for path in paths)


def packages() -> list[str]:
    """The packages and lone modules under the face."""
    return sorted({module.package for module in modules()} - {"__init__", "__main__"})


def walk_frame(nodes: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every node under *nodes* that runs in the same frame: not into nested functions, lambdas and classes."""
    for node in nodes:
        yield node
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                yield from walk_frame([child])


def names_in(node: ast.AST) -> set[str]:
    """The plain and dotted names in *node*: {"asyncio.CancelledError", "Exception"}."""
    return {ast.unparse(child) for child in ast.walk(node) if isinstance(child, ast.Name | ast.Attribute)}
