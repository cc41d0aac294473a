"""The scenarios of the sweep: runs in which something happens that a stop may meet."""

from tests.conformance.scenarios import calls, layers, misbehaving, models, observed, stored

SCENARIOS = (
    *models.SCENARIOS,
    *calls.SCENARIOS,
    *layers.SCENARIOS,
    *observed.SCENARIOS,
    *misbehaving.SCENARIOS,
    *stored.SCENARIOS,
)
