"""Prints the public API, name by name with signatures, so that a change of it is a visible diff.

Usage: `python scripts/api.py --check` compares with tests/architecture/api.txt, `--write` writes it.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

SNAPSHOT = Path(__file__).parents[1] / "tests" / "architecture" / "api.txt"
FACES = ("loopctl", "loopctl.model", "loopctl.messages", "loopctl.testing")
SPECIAL = {"__init__", "__aenter__", "__aexit__", "__enter__", "__exit__", "__aiter__", "__await__", "__call__"}


def describe_api() -> str:
    """The whole snapshot as text."""
    lines: list[str] = []
    for face in FACES:
        module = import_module(face)
        lines += [f"[{face}]", ""]
        for name in sorted(module.__all__):
            lines += [*_describe(name, getattr(module, name)), ""]
    return "\n".join(lines)


def _describe(name: str, thing: object) -> Iterator[str]:
    if inspect.isclass(thing):
        bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
        yield f"class {name}({bases})" if bases else f"class {name}"
        yield from (f"    {line}" for line in _members(thing))
    elif callable(thing) and not _is_alias(thing):
        yield _signature(name, thing)
    else:
        yield f"{name} = {_plain(repr(thing))}" if _is_alias(thing) else f"{name}: {type(thing).__name__}"


def _is_alias(thing: object) -> bool:
    return type(thing).__module__ in {"typing", "types"} and not inspect.isroutine(thing)


def _members(kind: type) -> Iterator[str]:
    if issubclass(kind, enum.Enum):
        yield from (f"{member.name} = {member.value!r}" for member in kind)
    fields = {field.name: field for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else {}
    for field in fields.values():
        has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        yield f"{field.name}: {field.type}" + (" = ..." if has_default else "")
    for name, value in sorted(_own(kind).items()):
        if name not in fields and (not name.startswith("_") or (name in SPECIAL and not fields)):
            yield from _member(name, value)


def _own(kind: type) -> dict[str, object]:
    """What the class and its bases of ours define; the standard library's part differs between Pythons."""
    own: dict[str, object] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("loopctl"):
            own |= {name: value for name, value in vars(base).items() if not _is_generated(base, name)}
    return own


def _is_generated(kind: type, name: str) -> bool:
    if issubclass(kind, enum.Enum):
        return name.startswith("_") or name in kind.__members__
    return name == "__init__" and getattr(kind, "_is_protocol", False)


def _member(name: str, value: object) -> Iterator[str]:
    if isinstance(value, property):
        yield f"property {name} -> {getattr(value.fget, '__annotations__', {}).get('return', '?')}"
    elif isinstance(value, staticmethod | classmethod):
        yield f"{type(value).__name__} {_signature(name, value.__func__)}"
    elif inspect.isfunction(value):
        yield _signature(name, value)
    elif not name.startswith("__"):
        yield f"attribute {name}"


def _signature(name: str, function: object) -> str:
    assert callable(function)
    prefix = "async def" if inspect.iscoroutinefunction(function) else "def"
    return f"{prefix} {name}{_plain(str(inspect.signature(function)))}"


def _plain(text: str) -> str:
    """Without addresses, private homes, and the quotes that `from __future__ import annotations` leaves."""
    text = re.sub(r" at 0x[0-9a-f]+|\bloopctl(\.\w+)*\.(?=[A-Z])", "", text)
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def main(arguments: list[str]) -> int:
    """Check or write; 1 if the snapshot is not what the code says."""
    now = describe_api()
    if arguments == ["--write"]:
        SNAPSHOT.write_text(now, encoding="utf-8")
        return 0
    then = SNAPSHOT.read_text(encoding="utf-8") if SNAPSHOT.exists() else ""
    for line in difflib.unified_diff(then.splitlines(), now.splitlines(), "api.txt", "the code", n=1, lineterm=""):
        print(line)
    if then != now:
        print("The public API changed. If that is meant: make api, and a fragment in changelog.d/.")
    return int(then != now)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
