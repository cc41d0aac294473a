"""What the lines with a slash do, on sessions that played a script."""

from __future__ import annotations

from loopctl.cli._commands import _COMMANDS, _HELP, perform_command
from loopctl.cli._screen import Screen
from loopctl.driver import Agent
from loopctl.testing import ScriptedModel, call, say, stall, virtual_run
from loopctl.tools import tool
from tests.unit.cli.test_screen import Fake


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def played(*lines):
    """Play two messages, the second one stopped, then *lines*; give the session and what was written."""
    model = ScriptedModel([call("add", {"a": 1, "b": 2})], "It is 3.", [say("Once upon"), stall()])
    stream = Fake(is_terminal=False)

    async def main():
        session = Agent(model, [add]).session()
        await session.run("1 + 2?")
        handle = session.start("a story")
        async for event in handle:
            if getattr(event, "text", "") == "Once upon":
                handle.cancel()
        await handle
        left = [perform_command(line, session, Screen(stream, {})) for line in lines]
        return session, left

    session, left = virtual_run(main)
    return session, left, stream.getvalue()


def test_history_is_what_the_model_knows():
    _, _, text = played("/history")
    assert text.splitlines() == [
        "      you  1 + 2?",
        "    calls  add(a=1, b=2)",
        "   result  3",
        "    model  It is 3.",
    ]


def test_runs_say_how_each_ended():
    _, _, text = played("/runs")
    first, second = text.splitlines()
    assert "completed" in first
    assert "completed: add" in first
    assert "cancelled at STREAM_EVENT after" in second
    assert "2 words" in second


def test_adopt_keeps_the_stopped_run_once():
    session, _, text = played("/adopt", "/adopt")
    assert text.splitlines() == [
        "Kept: your message; the reply as far as it came (2 words). The model is not told that it was stopped.",
        "The last run is part of the conversation already.",
    ]
    assert session.history[-1].text == "Once upon"


def test_nothing_to_show_is_said():
    stream = Fake(is_terminal=False)
    session = Agent(ScriptedModel()).session()
    for line in ("/history", "/runs", "/adopt"):
        perform_command(line, session, Screen(stream, {}))
    assert [line.split()[0] for line in stream.getvalue().splitlines()] == ["Nothing", "No", "There"]


def test_exit_leaves_and_nothing_else_does():
    _, left, text = played("/exit", "/quit", "/help", "/nonsense")
    assert left == [True, True, False, False]
    assert "/nonsense is no command: /help lists them" in text


def test_who_gives_an_argument_is_told_that_there_is_none():
    _, left, text = played("/exit now", "/history 3")
    assert left == [False, False]
    assert text.splitlines() == [
        "/exit takes no argument: type /exit alone",
        "/history takes no argument: type /history alone",
    ]


def test_only_the_last_run_can_be_kept_which_is_said():
    _, _, text = played("/adopt")
    assert "Kept" in text
    stream = Fake(is_terminal=False)

    async def main():
        session = Agent(ScriptedModel("Yes.")).session()
        await session.run("Well?")
        perform_command("/adopt", session, Screen(stream, {}))

    virtual_run(main)
    assert stream.getvalue() == "Nothing to keep: the last run completed, and only the last one can be kept.\n"


def test_help_names_every_command():
    assert [name for name in _COMMANDS if name not in _HELP] == []
