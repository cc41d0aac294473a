"""Break each call site of a checkpoint, one at a time, and see that a test of it turns red.

    python scripts/mutate.py [WORD ...]     only the sites whose line in the map has one of the words

A poll is left out; a wait becomes a plain one, which no signal ends. The work tree is not touched: each change is made
in a copy, and only the tests that the map names for the site are run there. Prints one line for each site.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
_map = import_module("tests.conformance.checkpoints")  # the tests are not typed as the library is
MAP, found = _map.MAP, _map.found

SECONDS = 120
"""For the tests of one site. A stop that nobody notices must end red, by the virtual clock or by this."""
DEAF = "__import__('loopctl').CancelSignal().token"
WAITS = {"supervise", "sleep"}
"""Functions of the concurrency layer that wait, and whose second argument is the token."""
RED = 1
"""pytest's exit code for failed tests; another one is no proof."""
FUNNEL = "ending = await supervise(work, run.token,"
"""Where the driver's waits for models come together, with their checkpoint in `at`."""


def without(site: Any) -> str:
    """Give the text of the site's module without the site."""
    call = next((parent for parent in site.parents if isinstance(parent, ast.Call)), None)
    text = site.module.text
    if call is not None and ast.unparse(call.func).endswith("poll"):
        return _replaced(text, call, "None")
    if call is not None and ast.unparse(call.func) in WAITS:
        return _replaced(text, call.args[1], DEAF)
    if FUNNEL not in text:
        raise SystemExit(
            f"{site.where} {site.member.name}: scripts/mutate.py does not know how to break this: teach it"
        )
    deaf = f"({DEAF} if at is Checkpoint.{site.member.name} else run.token)"
    return str(text.replace(FUNNEL, FUNNEL.replace("run.token", deaf)))


def _replaced(text: str, node: Any, by: str) -> str:
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    data = text.encode()
    begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
    return (data[:begin] + by.encode() + data[end:]).decode()


def run(copy: Path, tests: tuple[str, ...], *, is_shown: bool = False) -> int:
    """Run *tests* in *copy* and give pytest's exit code; *is_shown*: and let its words be seen."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--timeout", "20", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=not is_shown, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return RED
    return done.returncode


def survivors(copy: Path, words: list[str]) -> int:
    """Break every site in *copy*, and count those that no test noticed."""
    tests = {member: list(entry.sites) for member, entry in MAP.items()}
    count = 0
    for site in found():
        listed = next(entry for entry in tests[site.member] if entry.where == site.where)
        tests[site.member].remove(listed)
        line = f"{site.member.name:<14} {site.where}"
        if words and not any(word in line for word in words):
            continue
        file = copy / "src" / "loopctl" / site.module.name
        file.write_text(without(site), encoding="utf-8")
        code = run(copy, listed.tests)
        file.write_text(site.module.text, encoding="utf-8")
        count += code != RED
        print(f"{'red' if code == RED else f'SURVIVED (pytest said {code})':<8} {line}", flush=True)
    return count


def main() -> None:
    """Do it, and fail if a site survived."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("src", "tests", "benchmarks", "docs"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        every = tuple(dict.fromkeys(test for entry in MAP.values() for site in entry.sites for test in site.tests))
        if run(copy, every, is_shown=True) != 0:
            raise SystemExit("the tests of the map are red without any change: mend them first")
        count = survivors(copy, sys.argv[1:])
    if count:
        raise SystemExit(f"{count} call sites can be taken away and no test of theirs notices")


if __name__ == "__main__":
    main()
