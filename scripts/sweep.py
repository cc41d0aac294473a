"""Plays the full product of hands, sources, timings and graces over every scenario of the conformance tests.

Usage: `python scripts/sweep.py [SCENARIO ...]`, from the root of the repository. One scenario is one job; jobs run side
by side on all cores. The exit code is 1 if a promise was broken.
"""

from __future__ import annotations

import logging
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from loopctl.testing import Scenario, SweepFailed, cancel_everywhere

GRACES = (None, 0.0, 30.0)
"""The scenario's own, none at all, and more than anything needs."""


def scenarios() -> dict[str, Scenario]:
    """Give every scenario by its name."""
    found: tuple[Scenario, ...] = import_module("tests.conformance.scenarios").SCENARIOS
    return {str(scenario): scenario for scenario in found}


def sweep(name: str) -> tuple[bool, str, int]:
    """Play one scenario; say whether it was good, what came of it, and how many stops that were."""
    logging.disable(logging.CRITICAL)  # observers and tools fail on purpose
    try:
        result = cancel_everywhere(scenarios()[name], graces=GRACES, is_thorough=True)
    except SweepFailed as failed:
        return False, str(failed), 0
    return True, str(result), result.stops


def main(names: list[str]) -> int:
    """Play the scenarios that were named, or all."""
    known = scenarios()
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no such scenario: {', '.join(unknown)}. There are: {', '.join(known)}")
        return 2
    total, failures = 0, 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for job in as_completed([pool.submit(sweep, name) for name in names or known]):
            is_good, text, stops = job.result()
            total += stops
            failures += not is_good
            print(f"{'ok    ' if is_good else 'FAILED'} {text}", flush=True)
    print(f"{total} stops, {failures} scenarios failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
