"""What is loaded by whom: those who chat load nothing of a protocol, and a client nothing of our server."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded(program):
    lines = f"import sys\n{program}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_the_command_loads_no_protocol_before_it_is_asked_for():
    modules = loaded("import loopctl.cli._main")
    assert not modules & {"mcp", "mcp_types", "acp", "anyio", "starlette", "uvicorn", "loopctl.adapters"}


def test_a_client_loads_nothing_of_the_server():
    modules = loaded("from loopctl.adapters.mcp import McpClient")
    assert "loopctl.adapters.mcp._client" in modules
    assert not modules & {"loopctl.adapters.mcp._server", "loopctl.adapters.mcp._agent_tool", "jsonschema"}


@pytest.mark.parametrize("name", ["McpClient", "McpServer"])
def test_without_its_extra_each_name_says_what_to_install(name):
    program = f"""
sys.modules["mcp"] = sys.modules["mcp_types"] = None
try:
    from loopctl.adapters.mcp import {name}
except Exception as error:
    print(type(error).__name__, "loopctl-py[mcp]" in str(error))
"""
    assert {"MissingExtra", "True"} <= loaded(program)
