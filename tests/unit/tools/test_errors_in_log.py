"""What a tool, or the middleware around it, raised can be found by its author: the model is given a text only."""

from __future__ import annotations

import logging

import pytest

from loopctl import Agent, ToolError, tool
from loopctl.testing import ScriptedModel, call, virtual_run


@tool
async def broken() -> str:
    return {}["no such key"]


@tool
async def says_so() -> str:
    raise ToolError("ask me tomorrow")


class Broken:
    async def tool_call(self, call_: object, ctx: object, call_next: object) -> object:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("name", "middleware", "raised"),
    [("broken", [], [KeyError]), ("says_so", [Broken()], [ZeroDivisionError]), ("says_so", [], [])],
)
def test_the_traceback_of_an_error_is_in_the_log_unless_it_is_words_for_the_model(
    caplog: pytest.LogCaptureFixture, name: str, middleware: list[object], raised: list[type]
) -> None:
    caplog.set_level(logging.DEBUG, "loopctl")
    model = ScriptedModel([call(name, {}, id="c1")], "done")
    agent = Agent(model, [broken, says_so], middleware=middleware)  # type: ignore[arg-type]
    run = virtual_run(lambda: agent.session().run("go"))
    assert run.tool_calls[0].status == "failed"
    lines = [line for line in caplog.records if line.name == "loopctl"]
    assert [line.exc_info[0] for line in lines if line.exc_info] == raised
    assert all(line.getMessage() == f"{name} (c1) failed" and line.levelno == logging.DEBUG for line in lines)
