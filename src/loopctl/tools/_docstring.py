"""A docstring taken apart: what the tool does, and what each parameter means.

Google (`Args:`), NumPy (`Parameters` underlined) and Sphinx (`:param x:`) are read, mixed too. The sections on
parameters, exceptions and cancellation leave the description: the first go to the schema, the others are no use to a
model. All other text stays as it was written.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

__all__ = ["Docstring", "parse_docstring"]

_PARAMETERS = {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters"}
_EXCEPTIONS = {"raises", "exceptions", "warns", "cancellation"}
_SPHINX_FIELD = re.compile(r":(?P<kind>\w+)(?:\s+(?P<target>[^:]*?))?\s*:(?:\s+(?P<text>.*))?$")
_SPHINX_PARAMETERS = {"param", "parameter", "arg", "argument", "key", "keyword"}
_SPHINX_DROPPED = {"type", "raises", "raise", "except", "exception", "rtype", "meta"}
_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?:\(.*?\))?\s*:(?:\s+(?P<text>.*))?$")
_NUMPY_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")


@dataclass(slots=True)
class Docstring:
    """What `parse_docstring` found."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    """Parameter name -> its description on one line."""


def parse_docstring(text: str | None, names: Collection[str]) -> Docstring:
    """Take *text* apart.

    Args:
        text: A docstring as Python keeps it, or None.
        names: The parameters there are. Only these begin an entry, so that "Note: …" inside one is text.
    """
    lines = inspect.cleandoc(text or "").splitlines()
    found = Docstring()
    kept: list[str] = []
    at = 0
    while at < len(lines):
        at = _take(lines, at, names, found, kept)
    found.description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return found


def _take(lines: list[str], at: int, names: Collection[str], found: Docstring, kept: list[str]) -> int:
    """Read what begins at line *at* and give the line after it."""
    title = lines[at].strip().removesuffix(":").lower()
    is_section = title in _PARAMETERS or title in _EXCEPTIONS
    if is_section and _is_underlined(lines, at):
        end = _numpy_end(lines, at + 2)
        entries = _entries(lines[at + 2 : end], _NUMPY_ENTRY, names)
    elif is_section and lines[at].rstrip().endswith(":") and not lines[at].startswith(" "):
        end = _indented_end(lines, at + 1)
        entries = _entries(lines[at + 1 : end], _ENTRY, names)
    elif (match := _SPHINX_FIELD.match(lines[at])) and match["kind"] in _SPHINX_PARAMETERS | _SPHINX_DROPPED:
        end = _indented_end(lines, at + 1)
        words = (match["target"] or "").split()
        entries = iter([(words[-1:], [match["text"] or "", *lines[at + 1 : end]])])
        title = "params" if match["kind"] in _SPHINX_PARAMETERS else "raises"
    else:
        kept.append(lines[at])
        return at + 1
    if title in _PARAMETERS:
        for entry_names, body in entries:
            _note(found, entry_names, body)
    return end


def _note(found: Docstring, names: list[str], body: list[str]) -> None:
    text = " ".join(" ".join(body).split())
    if text:
        found.parameters |= dict.fromkeys((name.lstrip("*\\") for name in names), text)


def _is_underlined(lines: list[str], at: int) -> bool:
    return at + 1 < len(lines) and re.fullmatch(r"-{3,}|={3,}", lines[at + 1].strip()) is not None


def _numpy_end(lines: list[str], at: int) -> int:
    while at < len(lines) and not (lines[at].strip() and _is_underlined(lines, at)):
        at += 1
    return at


def _indented_end(lines: list[str], at: int) -> int:
    """Give the line after the indented block at *at*; blank lines at its end are not part of it."""
    end = at
    while at < len(lines) and (lines[at].startswith(" ") or not lines[at].strip()):
        at += 1
        if lines[at - 1].strip():
            end = at
    return end


def _entries(
    lines: list[str], pattern: re.Pattern[str], names: Collection[str]
) -> Iterator[tuple[list[str], list[str]]]:
    """Give (names, text lines) for each entry of a section; text before the first entry is dropped."""
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    entry: tuple[list[str], list[str]] | None = None
    for line in lines:
        match = pattern.match(line[margin:])
        entry_names = re.split(r"\s*,\s*", match["names"]) if match else []
        if match and any(name.lstrip("*") in names for name in entry_names):
            if entry:
                yield entry
            entry = (entry_names, [match.groupdict().get("text") or ""])
        elif entry:
            entry[1].append(line)
    if entry:
        yield entry
