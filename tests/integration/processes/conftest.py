"""Each test looks at its own children only."""

from __future__ import annotations

import pytest

from tests.integration.processes.alive import note_others


@pytest.fixture(autouse=True)
def others() -> None:
    """Note who was there before."""
    note_others()
