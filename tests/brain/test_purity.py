"""The brain is pure: importing it brings in nothing that waits, and a step changes nothing but the brain."""

from __future__ import annotations

import subprocess
import sys

FORBIDDEN = ("asyncio", "threading", "random", "socket", "ssl", "selectors", "concurrent.futures", "subprocess")


def test_importing_the_brain_loads_nothing_that_waits_or_draws_lots():
    code = (
        "import sys; before = set(sys.modules)\n"
        "import loopctl.brain\n"
        f"print([name for name in {FORBIDDEN!r} if name in set(sys.modules) - before])\n"
        "print('loopctl.brain' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["[]", "True"]


def test_importing_the_brain_loads_only_the_layers_below_it():
    code = "import sys, loopctl.brain; print(*{name.split('.')[1] for name in sys.modules if name[:8] == 'loopctl.'})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert set(done.stdout.split()) <= {"brain", "recovery", "fallback", "model", "record", "messages", "errors"}
