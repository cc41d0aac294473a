"""A folder of sockets of each test's own, for it and for the processes that it starts."""

from __future__ import annotations

import pytest


@pytest.fixture
def sockets(tmp_path, monkeypatch):
    folder = tmp_path / "sockets"
    monkeypatch.setenv("LOOPCTL_CONTROL_DIR", str(folder))
    return folder
