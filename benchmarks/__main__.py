"""Runs the benchmarks: each file bench_*.py offers `main() -> list[Row]`.

Usage: `python -m benchmarks [NAME ...]`, NAME being a part of a file's name. Exit 0 if every bound held, 1 if one did
not, 2 if a benchmark broke. Noise only ever adds time, so a bound has to hold in one of `TRIES`.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from benchmarks import Row

TRIES = 3
FOLDER = Path(__file__).parent
BOUNDS = FOLDER.parent / ".bench-bounds"
"""Left behind, with their names, if bounds did not hold and nothing broke; .ci/run reads it."""


def find(parts: list[str]) -> list[str]:
    """The names of the benchmarks that contain one of *parts*, or all of them."""
    names = sorted(path.stem for path in FOLDER.glob("bench_*.py"))
    return [name for name in names if not parts or any(part in name for part in parts)]


def measure(main: Callable[[], list[Row]]) -> list[Row]:
    """The rows of the best try."""
    best: list[Row] = []
    for attempt in range(TRIES):
        rows = [Row(*row) for row in main()]
        if not best or _failed(rows) < _failed(best):
            best = rows
        if not _failed(best):
            break
        if attempt + 1 < TRIES:
            print(f"  ({_failed(rows)} over the bound; once more)", flush=True)
    return best


def _failed(rows: list[Row]) -> int:
    return sum(not row.ok for row in rows)


def show(rows: list[Row], width: int) -> None:
    """Print *rows* as a table."""
    for row in rows:
        figure = row.figure if isinstance(row.figure, str) else f"{row.figure:.2f} x"
        bound = row.bound if isinstance(row.bound, str) else f"<= {row.bound:.2f} x"
        mark = "" if bound == "" else ("ok" if row.ok else "OVER")
        print(f"  {row.name:<{width}}  {figure:>16}  {bound:>12}  {mark}".rstrip(), flush=True)


def main(parts: list[str]) -> int:
    """Run and print; see the module."""
    BOUNDS.unlink(missing_ok=True)
    over: list[str] = []
    broken: list[str] = []
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name in find(parts):
        print(name.removeprefix("bench_").replace("_", " "), flush=True)
        try:
            rows = measure(import_module(f"benchmarks.{name}").main)
        except Exception:
            traceback.print_exc()
            broken.append(name)
            continue
        show(rows, max((len(row.name) for row in rows), default=0))
        over += [row.name for row in rows if not row.ok]
    if broken:
        print(f"broken: {', '.join(broken)}")
        return 2
    if over:
        BOUNDS.write_text("; ".join(over), encoding="utf-8")
        print(f"over the bound: {'; '.join(over)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
