"""What every test gets without asking: the leak check, sockets of its own, and hypothesis without a clock."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.leaks import leak_check, loop_errors, pytest_runtest_makereport

__all__ = ["leak_check", "loop_errors", "pytest_runtest_makereport"]

# No deadline: nothing here asserts wall-clock time. In CI the same examples each time: red means a changed program.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session", autouse=True)
def apart(tmp_path_factory):
    """Keep the sockets of the commands that are tested out of the sight of others."""
    os.environ["LOOPCTL_CONTROL_DIR"] = str(tmp_path_factory.mktemp("control") / "sockets")
