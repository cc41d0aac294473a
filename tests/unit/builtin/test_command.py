"""A command begins in the workspace, tells all there is to tell, and is bounded."""

import asyncio

import pytest

from loopctl import CancelSignal, ToolContext, ToolError
from loopctl.builtin import builtin_tools


@pytest.fixture
def run(tmp_path):
    (tool,) = builtin_tools(tmp_path, ["run_command"])
    told = []
    ctx = ToolContext("c1", "run_command", CancelSignal().token, report=lambda message, _: told.append(message))

    def run(**arguments):
        return asyncio.run(tool.call(tool.bind(arguments), ctx))

    run.told = told
    return run


def test_the_exit_code_and_both_outputs_are_given_and_the_lines_told_as_they_come(run, tmp_path):
    (tmp_path / "a.txt").touch()
    assert run(command="ls; echo bad >&2; exit 3") == "exit code 3\na.txt\nstderr:\nbad"
    assert sorted(run.told) == ["a.txt", "bad"]
    assert run(command="kill -9 $$") == "killed by signal 9"


def test_long_output_is_cut_in_the_middle(run):
    text = run(command="echo begin; yes | head -c 1000000; echo end")
    assert len(text) < 31_000
    assert text.startswith("exit code 0\nbegin")
    assert "bytes left out" in text
    assert text.endswith("end")


def test_a_command_has_its_time(run):
    with pytest.raises(ToolError, match=r"so far.* A longer one: give seconds"):
        run(command="echo so far; sleep 60", seconds=0.5)


@pytest.mark.parametrize("arguments", [{"command": " "}, {"command": "a\0b"}, {"command": "ls", "seconds": 0}])
def test_what_cannot_be_run_says_why(run, arguments):
    with pytest.raises(ToolError):
        run(**arguments)


def test_the_model_is_told_nothing_of_cancellation(tmp_path):
    assert [tool.name for tool in builtin_tools(tmp_path) if "Cancellation" in tool.description] == []
