"""A signal at an unlucky instant of the chat: it counts, and it counts once."""

from __future__ import annotations

import asyncio
import io
import os

from loopctl import Agent
from loopctl.cli._chat import Chat
from loopctl.cli._presses import Presses
from loopctl.cli._prompt import LinePrompt
from loopctl.cli._screen import Screen
from loopctl.testing import ScriptedModel
from tests.unit.cli.records import CTRL_C


class Unlucky(Presses):
    """Gets a Ctrl-C in the instant before the chat looks for one for the *at*-th time."""

    def __init__(self, at):
        super().__init__()
        self._left = at

    def take(self):
        self._left -= 1
        if not self._left:
            self(CTRL_C)
        return super().take()


def talk_with(presses, typed):
    """Type *typed*, give the chat all the time it wants, then end the input; give what was shown."""
    out = io.StringIO()

    async def main():
        source, sink = os.pipe()
        session = Agent(ScriptedModel("fine.")).session()
        task = asyncio.create_task(Chat(session, Screen(out, {}), LinePrompt(source, None), presses).talk())
        os.write(sink, typed)
        for _ in range(50):
            await asyncio.sleep(0)
        assert not task.done(), f"it left:\n{out.getvalue()}"
        os.close(sink)
        await task
        os.close(source)

    asyncio.run(main())
    return out.getvalue()


def test_a_press_just_before_the_prompt_waits_warns_once_and_does_not_leave():
    assert talk_with(Unlucky(1), b"").count("Press Ctrl-C again to leave") == 1


def test_a_press_between_two_prompts_warns_once_and_does_not_leave():
    assert talk_with(Unlucky(2), b"/help\n").count("Press Ctrl-C again to leave") == 1
