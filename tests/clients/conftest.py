"""Where the third-party clients are: `make test-clients` installs them, and says where by LOOPCTL_CLIENTS."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chromium import browser, page

__all__ = ["browser", "clients", "page"]


@pytest.fixture(scope="session")
def clients():
    """The folder of the installed clients."""
    place = os.environ.get("LOOPCTL_CLIENTS")
    if not place:
        pytest.skip("the third-party clients are not installed: make test-clients")
    if not Path(place, "installed").exists():
        pytest.skip(f"the third-party clients could not be installed in {place}; tests/integration has scripted ones")
    return Path(place).absolute()
