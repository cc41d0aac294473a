"""A victim that is the command `loopctl run` with the built-in tools: it marks what its own events say.

The events come a moment after what they tell of, so that a call that has just ended may still be marked as running; the
test looks for other signs, too.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import sys
from pathlib import Path

from loopctl.cli import main

BEGUN, INSIDE, AFTER = 1, 2, 3
VICTIM = "LOOPCTL_TEST_VICTIM"

if __name__ == "program":  # in the server of `Victims`: each fork finds loaded what the command loads
    for name in ("loopctl.cli._main", "loopctl.builtin", "loopctl.providers._http", "loopctl.providers.openai"):
        importlib.import_module(name)
    for name in ("anyio._backends._asyncio", "httpcore2", "truststore"):
        importlib.import_module(name)
    gc.freeze()


class Marking(io.StringIO):
    """Stands for stdout: reads the events that are written."""

    def __init__(self, mark):
        super().__init__()
        self._mark = mark

    def write(self, text: str) -> int:
        kind = json.loads(text)["event"]
        if kind in ("ToolStarted", "ToolFinished"):
            self._mark(INSIDE if kind == "ToolStarted" else AFTER)
        return len(text)


def work(mark, folder: Path, number: int) -> None:
    os.environ[VICTIM] = str(folder)  # what it starts inherits that
    url = (folder / "url").read_text()
    sys.stdout = Marking(mark)
    options = ["--base-url", url, "--model", "test", "--workspace", str(folder / "kept"), "--yes", "--events"]
    if main(["run", *options, f"kill {number}"]):
        raise SystemExit(1)
