"""A call in a process of its own: the worker's side of it.

Rules: the call runs in the main thread, so that a signal reaches it; the cancel comes over the socket, with its reason,
and SIGTERM with it; a plain function that does not take the context is told by `SystemExit`, so that its `finally`
blocks run; after the answer nothing of this process is waited for.
"""

from __future__ import annotations

import asyncio
import io
import multiprocessing.spawn
import os
import pickle
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from loopctl.cancel import CancelSignal
from loopctl.concurrency import Grace, TaskWork, interrupts, refuse_tasks, run, supervise
from loopctl.errors import Cancelled, LoopError
from loopctl.record import CancelReason
from loopctl.tools._carry import find, pickled, pickled_error, unwrap
from loopctl.tools._commands import Commands
from loopctl.tools._context import ToolContext, means_of
from loopctl.tools._frames import Frames, frame

__all__ = ["main"]

_PORTION = 65536
_PATIENCE = 1.0
"""Seconds that a SIGTERM waits for the cancel that comes with it, to take its reason."""


class _Absent(Commands):
    """Stands for the parts of the engine that are in the other process."""

    async def run(self, *_: Any, **__: Any) -> NoReturn:
        raise LoopError(
            "ctx.run_process is not there in a tool with isolation='process'. Use subprocess: what it starts ends with"
            " the call too."
        )

    def once(self, key: str, *_: Any, **__: Any) -> NoReturn:
        raise LoopError(
            f"ctx.once({key!r}) is not there in a tool with isolation='process': the ledger is in the other process."
            " Do it in a tool without isolation."
        )


class _Worker:
    """One call."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._signal = CancelSignal()
        self._request: bytes | None = None
        self._is_plain = False
        self._is_inside = False

    def serve(self) -> None:
        """Do what is asked, and answer."""
        frames = Frames(self._hear)
        while self._request is None:
            portion = self._channel.recv(_PORTION)
            if not portion:
                return
            frames.take(portion)
        threading.Thread(target=self._listen, args=(frames,), name="loopctl worker", daemon=True).start()
        try:
            answer = "returned", pickled(self._call(pickle.loads(self._request)), "what the tool returned")  # noqa: S301
        except BaseException as error:  # the tool's code, and its module's
            answer = "raised", pickled_error(asyncio.CancelledError() if self._is_unwound(error) else error)
        self._tell(*answer)

    def _listen(self, frames: Frames) -> None:
        while portion := self._channel.recv(_PORTION):
            frames.take(portion)

    def _hear(self, message: bytes) -> None:
        """Take the call, which comes first, or the cancel."""
        if self._request is None:
            self._request = message
            return
        reason, urgency = pickle.loads(message)  # noqa: S301 - of our parent
        self._signal.cancel(reason, urgency=urgency)

    def _terminate(self, reason: CancelReason) -> None:
        """Handle SIGTERM, in the main thread, between any two of its steps."""
        if not self._signal.wait(_PATIENCE):
            self._signal.cancel(reason)
        if self._is_plain and self._is_inside:
            self._is_inside = False
            raise SystemExit(143)

    def _is_unwound(self, error: BaseException) -> bool:
        return self._signal.is_cancelled() and isinstance(error, asyncio.CancelledError | Cancelled | SystemExit)

    def _tell(self, *message: Any) -> None:
        with self._lock:
            self._channel.sendall(frame(pickle.dumps(message)))

    def _call(self, request: dict[str, Any]) -> Any:
        function = _function(request)
        arguments = pickle.loads(request["arguments"])  # noqa: S301 - of our parent
        call_id, name, key = request["call"]
        absent = _Absent()
        context = ToolContext(
            call_id,
            name,
            self._signal.token,
            key,
            lambda *progress: self._tell("progress", *progress),
            ledger=absent,
            commands=absent,
        )
        parameter = request["context_parameter"]
        if parameter is not None:
            arguments[parameter] = context
        with interrupts(self._terminate):
            try:
                return self._run(function, arguments, is_polling=parameter is not None)
            finally:
                means_of(context).folder.remove()

    def _run(self, function: Callable[..., Any], arguments: dict[str, Any], *, is_polling: bool) -> Any:
        self._is_plain = not is_polling
        self._is_inside = True
        try:
            result = function(**arguments)
            self._is_plain = False
            return run(self._await(result)) if asyncio.iscoroutine(result) else result
        finally:
            self._is_inside = False

    async def _await(self, coroutine: Any) -> Any:
        """Await the tool; the warden bounds how long.

        Cancellation:
            A checkpoint.
        """
        work = TaskWork(coroutine, "loopctl tool")
        ending = await supervise(work, self._signal.token, grace=Grace(float("inf")))
        if ending.error is not None:
            raise ending.error
        return ending.value


def _function(request: dict[str, Any]) -> Callable[..., Any]:
    sys.argv[:] = request["argv"]
    if request["main"]:
        with refuse_tasks(
            "this program began something of loopctl while the process of a tool imported it. Put what it does under"
            " `if __name__ == '__main__':`, and its tools above that, or into a module."
        ):
            multiprocessing.spawn.prepare(request["main"])
    carried = request["function"]
    function: Callable[..., Any] = pickle.loads(carried) if isinstance(carried, bytes) else unwrap(find(*carried))  # noqa: S301
    return function


def main() -> None:
    """Take one call from the standard input, which is a socket, do it, answer, and end."""
    channel = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # it is shown as it comes
    try:
        _Worker(channel).serve()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)  # what the tool left running ends here: its threads too
