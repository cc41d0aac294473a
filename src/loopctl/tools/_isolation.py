"""A call in a process of its own: our side of it.

Rules: the worker is a command like any other, led by a warden, so it ends as a whole and with us; what it says comes
over its standard input, which is a socket; what it prints is printed here.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from loopctl.concurrency import Command, OutputStream, ProcessWork
from loopctl.errors import LoopError, ToolError
from loopctl.record import CancelReason, Urgency
from loopctl.tools._carry import carried_error, carried_function, main_module, pickled_arguments
from loopctl.tools._commands import Output, ended_with
from loopctl.tools._context import ToolContext, means_of
from loopctl.tools._frames import Frames, frame
from loopctl.tools._tool import Tool

__all__ = ["IsolatedWork"]

_DYING = 0.03
"""Seconds that a killed process may take to be gone, beyond a grace that left it no time."""
_LAST_WORDS = 4000
"""Bytes that are kept of what a worker prints, for the error if it dies."""


class IsolatedWork(ProcessWork):
    """One call in a worker process."""

    def __init__(self, tool: Tool, arguments: dict[str, Any], context: ToolContext) -> None:
        """Prepare to call *tool* with *arguments*."""
        self._tool = tool
        self._arguments = arguments
        self._context = context
        self._final: tuple[str, bytes] | None = None
        self._is_held = False
        self._printed = Output(_LAST_WORDS, _print)
        super().__init__(
            _command(), means_of(context).commands.grace, self._printed.take, Frames(self._hear_message).take
        )

    def start(
        self, loop: asyncio.AbstractEventLoop, on_ended: Callable[[], None], may_begin: Callable[[], bool], /
    ) -> None:
        try:
            request = self._request()
        except LoopError as error:  # something cannot be carried
            self._fail(loop, on_ended, error)
            return
        super().start(loop, on_ended, may_begin)
        if self.is_left():
            self.send(request)

    def _request(self) -> bytes:
        if os.name != "posix":
            raise LoopError("isolation='process' needs the process groups of a POSIX system: there are none here")
        tool, context = self._tool, self._context
        function = carried_function(tool._function, tool.name)
        arguments = pickled_arguments(self._arguments, tool.name)
        named = function if isinstance(function, bytes) else function[0].encode()
        needs_main = b"__main__" in named or b"__main__" in arguments
        request = {
            "main": main_module() if needs_main else {},
            "argv": sys.argv,
            "function": function,
            "arguments": arguments,
            "context_parameter": tool._context_parameter,
            "call": (context.call_id, context.tool_name, context.idempotency_key),
        }
        return frame(pickle.dumps(request))

    def interrupt(self) -> None:
        if not self._presses and self.is_left():
            token = self._context.signal
            reason = token.reason or CancelReason("deadline", "the call took longer than it may")
            self.send(frame(pickle.dumps((reason, token.urgency or Urgency.STOP))))
        super().interrupt()

    def hold(self, release: Callable[[], None], /) -> bool:
        """Wait a moment for a process that was killed, so that it need not be called still running."""
        if self._is_held:
            return False
        self._is_held = True
        self._loop.call_later(_DYING, release)
        return True

    def _hear_message(self, message: bytes) -> None:
        kind, *rest = pickle.loads(message)  # noqa: S301 - of our own worker, which runs code that we were given
        if kind == "progress":
            means_of(self._context).report(*rest)
        else:
            self._final = (kind, rest[0])

    def result(self) -> tuple[Any, BaseException | None]:
        end, error = super().result()
        if self._final is not None:
            return self._carried(*self._final)
        if end is None or self._presses:
            return None, error or asyncio.CancelledError()
        words = self._printed.last_words()
        return None, ToolError(f"the process of the tool {self._tool.name} {ended_with(end.returncode)}{words}")

    def _carried(self, kind: str, data: bytes) -> tuple[Any, BaseException | None]:
        try:
            if kind == "returned":
                return pickle.loads(data), None  # noqa: S301 - as above
            return None, carried_error(data)
        except Exception as error:  # the type's own hooks run here
            return None, error


def _command() -> Command:
    """Give the command of a worker: the same interpreter, with the same options and the same path."""
    program = f"import sys; sys.path[:] = {sys.path!r}; from loopctl.tools._worker import main; main()"
    argv = [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", program]  # type: ignore[attr-defined]
    return Command(tuple(os.fsencode(word) for word in argv), dict(os.environb))


def _print(line: str, stream: OutputStream) -> None:
    print(line, file=sys.stdout if stream == "stdout" else sys.stderr)
