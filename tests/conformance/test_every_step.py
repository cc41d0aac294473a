"""A run is stopped at every scheduling step, by every hand that can stop it, and the promises hold each time.

What is promised is in `loopctl.testing`; this plays each scenario in the short form. `make sweep` plays all of it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopctl.testing import Scenario, cancel_everywhere
from tests.conformance.scenarios import calls, layers, misbehaving, models, observed, stored

pytestmark = pytest.mark.timeout(240)  # some hundred runs each: seconds, but not on a machine that is busy

SCENARIOS = {
    str(scenario): scenario
    for scenario in (*models.SCENARIOS, *calls.SCENARIOS, *layers.SCENARIOS, *observed.SCENARIOS, *stored.SCENARIOS)
}
MISBEHAVING = {str(scenario): scenario for scenario in misbehaving.SCENARIOS}


def _sweep(scenario: Scenario, **options) -> None:
    result = cancel_everywhere(scenario, **options)
    assert result.outcomes["cancelled"] > result.steps
    assert result.sources.keys() >= {"loop", "task", "thread", "observer"}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_stop_at_any_step_ends_the_run_once_and_cleanly(scenario: Scenario) -> None:
    """Case A1, Case B2, Case B16, Case F6, Case H6, Case H16 and Case K1 at every step."""
    _sweep(scenario)


@pytest.mark.parametrize("scenario", MISBEHAVING.values(), ids=MISBEHAVING)
def test_a_tool_that_misbehaves_breaks_no_promise_at_any_step(scenario: Scenario) -> None:
    """Case B16 at every step: whatever a tool does with the cancel, the run ends within the grace."""
    _sweep(scenario, hands=["session", "caller"], timings=["before", "at"])


@pytest.mark.parametrize("scenario", MISBEHAVING.values(), ids=MISBEHAVING)
def test_a_tool_that_misbehaves_gets_no_time_at_all_with_no_grace(scenario: Scenario) -> None:
    """The run ends in the very instant of the stop; what has not unwound by then is listed."""
    listed = replace(scenario, stragglers=True)
    result = cancel_everywhere(listed, hands=["session"], sources=["loop"], timings=["before"], graces=[0])
    assert result.outcomes["cancelled"] > result.steps / 2
