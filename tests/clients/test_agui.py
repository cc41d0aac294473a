"""The published JavaScript client of AG-UI, and the front end of our how-to, against our server."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from loopctl import Agent, tool
from loopctl.testing import ScriptedModel, call, fail, say, stall
from tests.integration.web.served import PATIENCE, served, until

FOLDER = Path(__file__).parent
HOWTO = FOLDER.parents[1] / "docs" / "howto" / "put-a-stop-button-in-your-product.md"


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.fixture
def node(clients, tmp_path):
    """Runs a program in JavaScript; gives what it printed."""

    def run(program: Path, *words: str):
        (tmp_path / program.name).write_text(program.read_text("utf-8"))
        (tmp_path / "node_modules").symlink_to(clients / "node_modules")
        argv = [clients / "bin" / "node", tmp_path / program.name, *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_the_client_sees_a_finished_run_with_its_tool_calls(node):
    model = ScriptedModel([say("one "), call("add", {"a": 1, "b": 2})], [say("it is "), say("3")])
    with served(Agent(model, [add])) as server:
        told = node(FOLDER / "agui_client.cjs", server.url, "go")
    assert (told["outcome"], told["error"]) == ("success", None)
    roles = [role for role, _ in told["messages"]]
    assert (roles[0], roles[-1], "tool" in roles) == ("user", "assistant", True)
    assert told["messages"][-1][1] == "it is 3"
    assert ["tool", "3"] in told["messages"]


def test_the_client_sees_the_cancelled_outcome_and_no_error(node):
    with served(Agent(ScriptedModel([say("one "), say("two "), stall()]))) as server:
        told = node(FOLDER / "agui_client.cjs", server.url, "go", "stop")
        (run,) = server.client.get("/runs").json()["runs"]
    assert (told["outcome"], told["error"]) == ("cancelled", None)
    assert told["receipt"] == [200, "ended"]
    assert told["messages"][-1] == ["assistant", "one two "]
    assert run["record"]["stop"]["reason"]["message"] == "the button"


def test_a_client_that_closes_the_connection_is_a_disconnect(node):
    """Case I5."""
    with served(Agent(ScriptedModel([say("one "), say("two "), stall()]))) as server:
        node(FOLDER / "agui_client.cjs", server.url, "go", "abort")
        until(lambda: server.client.get("/runs").json()["runs"][0]["outcome"] != "running")
        (run,) = server.client.get("/runs").json()["runs"]
    assert run["record"]["stop"]["reason"]["origin"] == "disconnect"


def test_the_client_sees_why_a_run_failed(node):
    with served(Agent(ScriptedModel([say("one "), fail("the server is on fire")]))) as server:
        told = node(FOLDER / "agui_client.cjs", server.url, "go")
    assert (told["outcome"], told["error"]) == (None, "failed")


def test_the_front_end_of_the_how_to_stops_a_run(node, tmp_path):
    (shown, *_) = re.findall(r"```js\n(// stop-button\.js\n.*?)```", HOWTO.read_text("utf-8"), re.DOTALL)
    program = tmp_path / "shown.mjs"
    program.write_text(
        shown
        + """
        let said = "";
        const run = begin(process.argv[2], "thread", "go", async (event) => {
          said += event.delta ?? "";
          if (event.delta === "two ") receipt = run.stop("the button");
        });
        let receipt = null;
        const end = await run.finished;
        const busy = await begin(process.argv[2], "../no", "go", () => 0).finished.catch((error) => error.message);
        console.log(JSON.stringify({ end, said, receipt: await receipt, busy }));
        """
    )
    with served(Agent(ScriptedModel([say("one "), say("two "), stall()]))) as server:
        told = node(program, server.url)
    assert (told["end"]["type"], told["end"]["outcome"]) == ("RUN_FINISHED", {"type": "cancelled"})
    assert told["said"] == "one two "
    assert (told["receipt"]["status"], told["receipt"]["outcome"]) == (200, "cancelled")
    assert "threadId" in told["busy"]
