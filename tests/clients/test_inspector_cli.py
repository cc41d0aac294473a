"""`loopctl mcp serve`, called by the command line of the official MCP inspector."""

from __future__ import annotations

import contextlib
import signal

import pytest

from tests.clients.inspector import ERAS, Inspector
from tests.clients.sdk import served_http
from tests.integration.mcp.places import is_alive

IN_BOTH_PROTOCOLS = pytest.mark.parametrize("era", ERAS)
CANCELLED = "user: the client cancelled the call (by mcp)"
LEFT = "disconnect: the client has left (by mcp)"


@pytest.fixture
def inspector(clients, tmp_path):
    with Inspector(clients, tmp_path) as inspector:
        yield inspector


@pytest.fixture(params=["stdio", "http"])
def url(request, inspector):
    """Where the server is; None if the client starts it."""
    with served_http(inspector.peer) if request.param == "http" else contextlib.nullcontext() as url:
        yield url


def ending(tool, name, reason):
    """What *tool* logs when it is stopped."""
    return f"cancelled {name}" if tool == "slow" else f"told {name}: {reason}"


def interrupt(process):
    """Press Ctrl-C at the client, and nowhere else."""
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)


@IN_BOTH_PROTOCOLS
def test_it_finds_nothing_wrong_with_our_schemas_and_gets_results(inspector, url, era):
    tools = inspector.run(era, url, "--method", "tools/list", "--strict")["tools"]
    assert {"add", "slow", "plain"} < {tool["name"] for tool in tools}
    done = inspector.result(era, url, "add", a=1, b=2)
    assert (done["content"], done["isError"]) == ([{"type": "text", "text": "3"}], False)


@IN_BOTH_PROTOCOLS
@pytest.mark.parametrize("tool", ["slow", "plain"])
def test_ctrl_c_at_a_client_that_started_the_server_stops_the_call_and_the_server(inspector, era, tool):
    call = inspector.call(era, None, tool, name="it")
    inspector.wait_for("begun it")
    interrupt(call)
    inspector.wait_for(ending(tool, "it", LEFT))
    (pid,) = inspector.peer.pids()
    while is_alive(pid):
        pass


@pytest.mark.parametrize("tool", ["slow", "plain"])
def test_ctrl_c_stops_the_call_over_http_in_the_new_protocol(inspector, tool):
    with served_http(inspector.peer) as url:
        other = inspector.call("modern", url, tool, name="other")
        inspector.wait_for("begun other")
        call = inspector.call("modern", url, tool, name="it")
        inspector.wait_for("begun it")
        interrupt(call)
        inspector.wait_for(ending(tool, "it", CANCELLED))
        assert inspector.result("modern", url, "add", a=1, b=2)["content"][0]["text"] == "3"
        assert sum("other" in line for line in inspector.peer.lines()) == 1, "the signal of one call touched another"
        interrupt(other)


def test_ctrl_c_does_not_stop_the_call_over_http_in_the_old_protocol(inspector):
    """There a lost connection is no cancel, says its specification."""
    with served_http(inspector.peer) as url:
        call = inspector.call("legacy", url, "slow", name="it")
        inspector.wait_for("begun it")
        interrupt(call)
        assert inspector.result("legacy", url, "add", a=1, b=2)["content"][0]["text"] == "3"
        assert "cancelled it" not in inspector.peer.lines()
    inspector.wait_for("cancelled it")  # by the end of the server
