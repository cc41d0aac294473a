"""The question before a tool call that needs a person's yes, at the terminal.

Rules: one question at a time; every argument is shown whole; only "y" or "yes", typed when the question was there, is a
yes. A stop ends the wait, and means no.
"""

from __future__ import annotations

import asyncio
import json

from loopctl.cli._prompt import LinePrompt
from loopctl.cli._screen import Screen
from loopctl.cli._terminal import take_typed
from loopctl.messages import ToolCall
from loopctl.tools import ToolContext

__all__ = ["Asking"]


class Asking:
    """Asks whoever sits at one terminal; give it to `Agent(approve=…)`."""

    def __init__(self, screen: Screen, descriptor: int, encoding: str = "utf-8") -> None:
        """Ask on *screen* and read the answer from *descriptor*, both of the same terminal."""
        self._screen = screen
        self._descriptor = descriptor
        self._encoding = encoding
        self._turn = asyncio.Lock()

    async def __call__(self, call: ToolCall, _: ToolContext) -> bool:
        """Ask whether *call* may run.

        Cancellation:
            The question is left as it stands; what is typed then goes to the prompt.
        """
        async with self._turn:
            take_typed(self._descriptor)  # from before the question: no answer to it
            self._show(call)
            try:
                answer = await LinePrompt(self._descriptor, None, encoding=self._encoding).read()
            except EOFError:  # Ctrl-D
                return False
            self._screen.is_open = False  # the terminal has shown the line break
            return answer.strip().casefold() in {"y", "yes"}

    def _show(self, call: ToolCall) -> None:
        self._screen.line(f"? {call.name} needs your yes" + (":" if call.arguments else ""), "yellow")
        for name, value in call.arguments.items():
            self._screen.line(f"    {name} = {json.dumps(value, ensure_ascii=False, default=str)}")
        self._screen.mark("  run it? y/N ", "bold")
