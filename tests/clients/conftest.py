"""Where the third-party clients are: `make test-clients` installs them, and says where by LOOPCTL_CLIENTS."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

__all__ = ["clients"]


@pytest.fixture
def clients():
    """The folder of the installed clients."""
    place = os.environ.get("LOOPCTL_CLIENTS")
    if not place:
        pytest.skip("the third-party clients are not installed: make test-clients")
    return Path(place).absolute()
